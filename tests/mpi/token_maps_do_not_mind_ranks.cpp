// Rates, linear maps, trained maps and contributions of samples that are spread over ranks are those of one
// rank.

#include <gtest/gtest.h>
#include <mpi.h>

#include "analysis/identifiability/contributions.hpp"
#include "analysis/identifiability/token_map.hpp"
#include "base/mpi.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability::token_maps_do_not_mind_ranks {
namespace {

constexpr int samples = 11, width = 5;

/// Every rank holds each rank-th sample; with MPI_COMM_SELF all of them.
TokenExamples shared_examples(unsigned seed, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  TokenExamples set{samples, {}};
  for (int s = samples - 1 - rank; s >= 0; s -= ranks) {
    const Matrix x = normal_matrix(5 + s % 4, width, seed + static_cast<unsigned>(s));
    set.samples.push_back({s, (x.array() + 0.4 * x.array().cube()).matrix(), x});
  }
  return set;
}

RidgeSums shared_moments(MPI_Comm comm) {
  RidgeSums sums(width, width);
  for (const auto& one : shared_examples(1, comm).samples) sums.add(one.states, one.descriptions);
  sums.reduce(comm);
  return sums;
}

TEST(LinearMap, does_not_mind_ranks) {
  const auto here = shared_moments(MPI_COMM_WORLD).solve({0.1})[0],
             alone = shared_moments(MPI_COMM_SELF).solve({0.1})[0];
  EXPECT_LT((here.slope - alone.slope).norm(), 1e-13);
  EXPECT_LT((here.offset - alone.offset).norm(), 1e-13);
}

TEST(MlpTraining, does_not_mind_ranks) {
  for (const auto distance : {TokenDistance::l2, TokenDistance::cosine}) {
    MlpSettings settings;
    settings.hidden = 16, settings.batch = 4, settings.epochs = 20;
    const auto train = [&](MPI_Comm comm) {
      return train_token_mlp(shared_examples(1, comm), shared_examples(100, comm), distance, settings, comm);
    };
    const auto here = train(MPI_COMM_WORLD), alone = train(MPI_COMM_SELF);
    EXPECT_EQ(here.epochs, alone.epochs);
    EXPECT_EQ(here.best, alone.best);
    EXPECT_LT(test::relative_difference(here.map.weights(), alone.map.weights()), 1e-10);
    EXPECT_NEAR(here.validation, alone.validation, 1e-12);
  }
}

TEST(RateSums, do_not_mind_ranks) {
  const auto rates = [](MPI_Comm comm) {
    RateSums sums;
    for (const auto& one : shared_examples(1, comm).samples)
      sums.add(nearest_tokens(2 * one.states, one.descriptions, TokenDistance::l2));
    sums.reduce(comm);
    return sums;
  };
  const auto here = rates(MPI_COMM_WORLD), alone = rates(MPI_COMM_SELF);
  EXPECT_DOUBLE_EQ(here.rate(), alone.rate());
  EXPECT_EQ(here.tokens(), alone.tokens());
}

TEST(ContributionAccumulator, does_not_mind_ranks) {
  const auto measure = [](MPI_Comm comm) {
    ContributionAccumulator meter(samples, 1, 9);
    for (const auto& one : shared_examples(1, comm).samples) {
      const auto n = static_cast<int>(one.states.rows());
      const Matrix norms = normal_matrix(n, n, static_cast<unsigned>(one.place)).cwiseAbs();
      meter.add(static_cast<int>(one.place), 0, contributions_of_norms(norms), {1, n, 0});
    }
    meter.reduce(comm);
    return meter;
  };
  const auto here = measure(MPI_COMM_WORLD), alone = measure(MPI_COMM_SELF);
  EXPECT_DOUBLE_EQ(here.own_share()[0], alone.own_share()[0]);
  EXPECT_EQ(here.own_quartiles()[0].upper, alone.own_quartiles()[0].upper);
  EXPECT_NEAR(here.half_distance()[0], alone.half_distance()[0], 1e-14);
}

}  // namespace
}  // namespace fluxformer::identifiability::token_maps_do_not_mind_ranks
