// Tokens on the sphere that ranks share: the same leaders and counts to the last digit, the same attention up to the order of sums, also
// where there are more ranks than tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/clusters/leaders.hpp"
#include "analysis/clusters/sphere.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::clusters::tokens_on_the_sphere_do_not_mind_ranks {
namespace {

using test::max_over;
using test::sum_over;

const MPI_Comm world = MPI_COMM_WORLD;

/// Tokens of all ranks, and those of this one.
struct SharedTokens {
  SharedTokens(Index count, int dimension, double beta)
      : all(random_tokens(0, count, dimension, 7)), attention(count, dimension, beta, world) {
    mine = random_tokens(attention.first(), attention.count(), dimension, 7);
  }
  Tokens all, mine;
  SphereAttention attention;
};

/// 0 if the lists are the same on this rank.
double differs(const std::vector<double>& one, const std::vector<double>& other) {
  return one == other ? 0 : 1;
}

TEST(SphereOnRanks, every_token_is_on_one_rank) {
  for (const Index count : {1, 2, 7, 100}) {
    const SharedTokens shared(count, 3, 1);
    EXPECT_EQ(sum_over(world, static_cast<double>(shared.attention.count())), count);
    std::vector<double> x(count * 3, 0.0);
    std::copy(shared.mine.x.begin(), shared.mine.x.end(), x.begin() + shared.attention.first() * 3);
    EXPECT_EQ(sum_over(world, x), shared.all.x);
  }
}

TEST(SphereOnRanks, leaders_and_counts_are_the_same) {
  for (const Index count : {1, 4, 101, 400})
    for (const double delta : {0.05, 0.4}) {
      const SharedTokens shared(count, 3, 1);
      for (const Index most : {4096, 30}) {
        const auto mine = leaders_of(shared.mine, delta, most, world),
                   whole = leaders_of(shared.all, delta, most, MPI_COMM_SELF);
        EXPECT_EQ(max_over(world, differs(mine.tokens.x, whole.tokens.x)), 0) << count << ' ' << delta;
        EXPECT_EQ(mine.cloud, whole.cloud);
        if (!whole.cloud) {
          const auto first = whole.of.begin() + shared.attention.first();
          const bool same = std::equal(mine.of.begin(), mine.of.end(), first, first + shared.mine.count());
          EXPECT_EQ(max_over(world, same ? 0 : 1), 0);
        }
        const auto found = clusters_on_sphere(shared.mine, delta, most, world),
                   alone = clusters_on_sphere(shared.all, delta, most, MPI_COMM_SELF);
        EXPECT_EQ(max_over(world, found.fewest == alone.fewest && found.most == alone.most ? 0 : 1), 0);
        EXPECT_EQ(max_over(world, differs(found.masses, alone.masses)), 0);
        EXPECT_EQ(max_over(world, std::abs(found.compact_share - alone.compact_share)), 0);
      }
    }
}

TEST(SphereOnRanks, attention_is_the_same) {
  for (const Index count : {1, 2, 5, 150})
    for (const int dimension : {2, 3, 9}) {
      SharedTokens shared(count, dimension, 7);
      SphereAttention whole(count, dimension, 7, MPI_COMM_SELF);
      std::vector<double> rate(shared.mine.x.size()), expected(shared.all.x.size());
      shared.attention.velocity(shared.mine.x, rate);
      whole.velocity(shared.all.x, expected);
      double error = 0;
      for (std::size_t k = 0; k < rate.size(); ++k)
        error = std::max(error, std::abs(rate[k] - expected[shared.attention.first() * dimension + k]));
      EXPECT_LT(max_over(world, error), 1e-14);  // sums of numbers below 1 in another order
      const auto found = shared.attention.sums(shared.mine.x), alone = whole.sums(shared.all.x);
      EXPECT_NEAR(found.number_2 / alone.number_2, 1, 1e-13);
      EXPECT_NEAR(found.number_1 / alone.number_1, 1, 1e-13);
      EXPECT_NEAR(found.energy / alone.energy, 1, 1e-13);
      EXPECT_NEAR(found.dissipation, alone.dissipation, 1e-14);
      const auto powers = degree_powers(shared.mine, world),
                 of_all = degree_powers(shared.all, MPI_COMM_SELF);
      for (const int degree : {0, 1}) EXPECT_NEAR(powers[degree], of_all[degree], 1e-14);
    }
}

}  // namespace
}  // namespace fluxformer::clusters::tokens_on_the_sphere_do_not_mind_ranks
