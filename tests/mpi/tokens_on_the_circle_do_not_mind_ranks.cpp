// Tokens on the circle that ranks share: the same clusters to the last digit, the same attention and moments up to the order of sums, by
// pairs and by moments, also where there are more ranks than tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "base/random.hpp"
#include "data/dataset.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::clusters::tokens_on_the_circle_do_not_mind_ranks {
namespace {

using test::max_over;
using test::rank_in;
using test::size_of;

const MPI_Comm world = MPI_COMM_WORLD;

/// Angles and weights of all tokens, and of those of this rank; half of them in a cluster.
struct SharedAngles {
  explicit SharedAngles(std::size_t count) {
    const RandomStream random(7, "angles");
    for (std::size_t j = 0; j < count; ++j) {
      all.push_back(random.uniform(j, 0, j % 2 == 0 ? 2 * std::numbers::pi : 0.01));
      weights.push_back(static_cast<double>(1 + j % 3));
    }
    const auto own = data::balanced_shard(count, rank_in(world), size_of(world));
    first = own.first;
    mine.assign(all.begin() + own.first, all.begin() + own.first + own.count);
    my_weights.assign(weights.begin() + own.first, weights.begin() + own.first + own.count);
  }
  std::vector<double> all, weights, mine, my_weights;
  std::size_t first = 0;
};

// Sums of up to a thousand numbers below 3 in another order, over z >= 1.
constexpr double order_of_sums = 1e-12;

TEST(CircleOnRanks, attention_and_moments_are_the_same) {
  for (const std::size_t count : {1, 2, 5, 32, 33, 200, 1000})  // beta 9 has 33 moments
    for (const auto normalisation : {Weights::softmax, Weights::unnormalised}) {
      const SharedAngles shared(count);
      const CircleAttention attention(shared.my_weights, 9, 1, world, normalisation),
          whole(shared.weights, 9, 1, MPI_COMM_SELF, normalisation);
      EXPECT_EQ(attention.tokens(), static_cast<Index>(count));
      EXPECT_EQ(attention.weight(), whole.weight());  // a whole number
      std::vector<double> rate(shared.mine.size()), expected(count);
      attention.velocity(shared.mine, rate);
      whole.velocity(shared.all, expected);
      double error = 0;
      for (std::size_t j = 0; j < rate.size(); ++j)
        error = std::max(error, std::abs(rate[j] - expected[shared.first + j]));
      EXPECT_LT(max_over(world, error), order_of_sums) << count;
      const auto found = attention.sums(shared.mine), alone = whole.sums(shared.all);
      EXPECT_NEAR(found.number_2 / alone.number_2, 1, order_of_sums);
      EXPECT_NEAR(found.number_1 / alone.number_1, 1, order_of_sums);
      EXPECT_NEAR(found.energy / alone.energy, 1, order_of_sums);
      EXPECT_NEAR(found.dissipation, alone.dissipation, order_of_sums);
      const auto moments = attention.moments(shared.mine, 8), of_all = whole.moments(shared.all, 8);
      for (int k = 0; k < 8; ++k) EXPECT_LT(std::abs(moments[k] - of_all[k]), order_of_sums) << k;
    }
}

TEST(CircleOnRanks, clusters_are_the_same) {
  for (const std::size_t count : {1, 5, 100, 1000})
    for (const double delta : {0.003, 0.05, 0.4}) {
      const SharedAngles shared(count);
      const auto found = clusters_on_circle(shared.mine, shared.my_weights, delta, world),
                 alone = clusters_on_circle(shared.all, shared.weights, delta, MPI_COMM_SELF);
      ASSERT_EQ(found.number(), alone.number()) << count << ' ' << delta;
      EXPECT_EQ(found.compact_share, alone.compact_share);
      EXPECT_EQ(found.diameter, alone.diameter);
      for (std::size_t k = 0; k < found.each.size(); ++k) {
        EXPECT_EQ(found.each[k].weight, alone.each[k].weight);
        EXPECT_EQ(found.each[k].diameter, alone.each[k].diameter);
      }
    }
}

}  // namespace
}  // namespace fluxformer::clusters::tokens_on_the_circle_do_not_mind_ranks
