// Contributions of input tokens: normalisation, distances on lines and lattices, what is reported by depth.

#include "analysis/identifiability/contributions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

TokenLattice line(int tokens) {
  return {1, tokens, 0};
}

ContributionAccumulator meter_of(const std::vector<Matrix>& samples, const TokenLattice& lattice) {
  ContributionAccumulator meter(static_cast<int>(samples.size()), 1, static_cast<int>(samples[0].rows()) + 2);
  for (std::size_t s = 0; s < samples.size(); ++s) meter.add(static_cast<int>(s), 0, samples[s], lattice);
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

TEST(Contributions, of_all_input_tokens_add_up_to_1) {
  const Matrix norms = normal_matrix(9, 9, 1).cwiseAbs();
  const Matrix c = contributions_of_norms(norms);
  for (int j = 0; j < 9; ++j) {
    EXPECT_NEAR(c.col(j).sum(), 1, 1e-15 * 9);
    for (int i = 0; i < 9; ++i)
      EXPECT_NEAR(c(i, j) / c(0, j), norms(i, j) / norms(0, j), 1e-13 * norms(i, j) / norms(0, j));
  }
  EXPECT_GE(c.minCoeff(), 0);
}

TEST(Contributions, at_depth_0_are_the_identity) {
  // du_j/dx_i is the identity of R^5 for i = j and 0 else.
  EXPECT_EQ(contributions_of_norms(std::sqrt(5.0) * Matrix::Identity(4, 4)), Matrix::Identity(4, 4));
}

TEST(Contributions, of_frozen_attention_are_its_transposed_rows_divided) {
  // |A_ji W|: one head without residual connection. Rows of A sum to 1, so c is A transposed.
  const Matrix a = random_attention(7, 1);
  EXPECT_LT((contributions_of_norms(2.5 * a.transpose()) - a.transpose()).norm(), 1e-15 * 7);
}

TEST(Contributions, to_a_token_that_depends_on_nothing_do_not_exist) {
  Matrix norms = normal_matrix(4, 4, 1).cwiseAbs();
  norms.col(2).setZero();
  const Matrix c = contributions_of_norms(norms);
  EXPECT_TRUE(c.col(2).array().isNaN().all());
  EXPECT_NEAR(c.col(1).sum(), 1, 1e-15);
  const auto meter = meter_of({c}, line(4));
  EXPECT_EQ(meter.tokens()[0], 3);
  EXPECT_NEAR(meter.own_share()[0], (c(0, 0) + c(1, 1) + c(3, 3)) / 3, 1e-15);
  norms(0, 0) = -1;
  EXPECT_THROW(contributions_of_norms(norms), BadInput);
}

TEST(Contributions, are_grouped_by_distance) {
  const std::vector<std::size_t> expected{0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5, 6, 6};
  for (std::size_t distance = 0; distance < expected.size(); ++distance)
    EXPECT_EQ(distance_group(static_cast<int>(distance)), expected[distance]) << distance;
  EXPECT_EQ(distance_group(1000), 6u);
  EXPECT_EQ(token_distance(line(9), 2, 7), 5);
  EXPECT_EQ(token_distance(line(9), 7, 2), 5);
  // 3 rows of 4: token 1 lies at (0, 1), token 10 at (2, 2).
  EXPECT_EQ(token_distance({3, 4, 0}, 1, 10), 3);
  EXPECT_EQ(token_distance({3, 4, 0}, 3, 4), 4);  // neighbours in the list, not on the lattice
  // Behind a class token.
  EXPECT_EQ(token_distance({3, 4, 1}, 2, 11), 3);
  EXPECT_EQ(token_distance({3, 4, 1}, 0, 11), -1);
  EXPECT_EQ(token_distance({3, 4, 1}, 5, 0), -1);
}

TEST(Contributions, of_pairs_on_a_line_are_as_many_as_there_are) {
  constexpr int n = 16;
  const auto found = by_distance(Matrix::Constant(n, n, 1.0 / n), line(n));
  // 2 (n - r) pairs at each distance r > 0.
  const DistanceProfile pairs{16, 30, 28, 26, 24 + 22, 20 + 18 + 16 + 14 + 12, 10 + 8 + 6 + 4 + 2};
  EXPECT_EQ(found.pairs, pairs);
  for (std::size_t g = 0; g < distance_groups; ++g) EXPECT_NEAR(found.sum[g], pairs[g] / n, 1e-14);
}

TEST(Contributions, of_pairs_on_a_lattice_are_as_many_as_there_are) {
  DistanceProfile pairs{};
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 7; ++b)
      for (int x = 0; x < 5; ++x)
        for (int y = 0; y < 7; ++y) {
          const int far = std::abs(a - x) + std::abs(b - y);
          pairs[far <= 3 ? static_cast<std::size_t>(far) : far <= 5 ? 4u : 5u] += 1;
        }
  EXPECT_EQ(by_distance(Matrix::Constant(35, 35, 1.0 / 35), {5, 7, 0}).pairs, pairs);
  EXPECT_THROW(by_distance(Matrix::Constant(35, 35, 1.0 / 35), {5, 6, 0}), BadInput);
  EXPECT_THROW(half_distances(Matrix::Constant(35, 35, 1.0 / 35), {5, 6, 0}), BadInput);
}

TEST(Contributions, within_the_half_distance_are_half) {
  Matrix c = Matrix::Zero(6, 6);
  c.col(0) << 0.1, 0.1, 0.1, 0.2, 0.3, 0.2;    // 0.1, 0.2, 0.3, 0.5: up to token 3
  c.col(1) << 0.25, 0.2, 0.3, 0.05, 0.1, 0.1;  // 0.2, then 0.75
  c.col(2) << 0, 0, 0.5, 0.5, 0, 0;            // half of it is enough
  c.col(3) << 1, 0, 0, 0, 0, 0;
  c.col(4).setConstant(1.0 / 6);  // 1, 3, then 4 of 6
  c.col(5) << 0, 0, 0, 0, 0.51, 0.49;
  EXPECT_EQ(half_distances(c, line(6)), (std::vector<double>{3, 1, 0, 3, 1, 1}));
  // On a lattice of 2 x 3 tokens 0 and 3 are neighbours.
  EXPECT_EQ(half_distances(c, {2, 3, 0})[3], 1);
}

TEST(Contributions, that_are_1_half_but_for_round_off_count_as_half) {
  const Matrix c = 0.5 * Matrix::Identity(49, 49) + 0.5 * random_attention(49, 1).transpose();
  // Six times 1/12 is less than half of twelve times 1/12, as they are added.
  const Matrix alone = Matrix::Constant(12, 1, 1.0 / 12);
  EXPECT_EQ(half_distances(c, line(49)), std::vector<double>(49, 0));
  EXPECT_EQ(half_distances(alone, line(12)), std::vector<double>{5});
}

TEST(Contributions, of_a_class_token_are_at_no_distance) {
  Matrix c(5, 5);  // the class token gives everyone 0.6
  c.setConstant(0.1), c.row(0).setConstant(0.6);
  const auto found = by_distance(c, {2, 2, 1});
  EXPECT_EQ(found.pairs, (DistanceProfile{4, 8, 4, 0, 0, 0, 0}));
  const auto half = half_distances(c, {2, 2, 1});
  EXPECT_TRUE(std::isnan(half[0]));
  EXPECT_EQ(half[3], 1);  // of the 0.4 of the four patches: 0.1, then 0.3
  const auto meter = meter_of({c}, {2, 2, 1});
  EXPECT_EQ(meter.tokens()[0], 5);
  const auto groups = meter.by_group()[0];
  EXPECT_NEAR(std::accumulate(groups.begin(), groups.end(), 0.0), 0.4, 1e-15);
}

TEST(Contributions, of_the_own_token_are_largest_or_share_that) {
  Matrix c(3, 3);
  c.col(0) << 0.5, 0.3, 0.2;
  c.col(1) << 0.4, 0.4, 0.2;
  c.col(2) << 0.1, 0.6, 0.3;
  EXPECT_EQ(own_is_largest(c), (std::vector<double>{1, 0.5, 0}));
}

TEST(ContributionAccumulator, reports_shares_and_groups_of_all_samples) {
  const Matrix a = contributions_of_norms(normal_matrix(14, 14, 1).cwiseAbs()),
               b = contributions_of_norms(normal_matrix(9, 9, 2).cwiseAbs());
  const auto meter = meter_of({a, b}, line(14));
  std::vector<double> own;
  for (int j = 0; j < 14; ++j) own.push_back(a(j, j));
  for (int j = 0; j < 9; ++j) own.push_back(b(j, j));
  EXPECT_EQ(meter.tokens()[0], 23);
  EXPECT_NEAR(meter.own_share()[0], std::accumulate(own.begin(), own.end(), 0.0) / 23, 1e-15);
  std::sort(own.begin(), own.end());
  const auto quartiles = meter.own_quartiles()[0];
  EXPECT_NEAR(quartiles.lower, 0.5 * (own[5] + own[6]), 1e-15);  // place 5.5 of 0 .. 22
  EXPECT_NEAR(quartiles.median, own[11], 1e-15);
  EXPECT_NEAR(quartiles.upper, 0.5 * (own[16] + own[17]), 1e-15);

  const auto sum = by_distance(a, line(14)), other = by_distance(b, line(14));
  double all = 0;
  for (std::size_t g = 0; g < distance_groups; ++g) {
    const double total = sum.sum[g] + other.sum[g];
    EXPECT_NEAR(meter.by_group()[0][g], total / 23, 1e-15);
    EXPECT_NEAR(meter.by_pair()[0][g], total / (sum.pairs[g] + other.pairs[g]), 1e-15);
    all += meter.by_group()[0][g];
  }
  EXPECT_NEAR(all, 1, 1e-14);
  const auto first = own_is_largest(a), second = own_is_largest(b);
  EXPECT_NEAR(meter.own_largest()[0],
              (std::accumulate(first.begin(), first.end(), 0.0) +
               std::accumulate(second.begin(), second.end(), 0.0)) /
                  23,
              1e-15);
  const auto near = half_distances(a, line(14)), far = half_distances(b, line(14));
  EXPECT_NEAR(
      meter.half_distance()[0],
      (std::accumulate(near.begin(), near.end(), 0.0) + std::accumulate(far.begin(), far.end(), 0.0)) / 23,
      1e-14);
}

TEST(ContributionAccumulator, keeps_depths_apart) {
  ContributionAccumulator meter(1, 3, 6);
  for (int depth = 0; depth < 3; ++depth) {
    // Heat from both neighbours on a ring of 6 at each depth: own share 1 - depth / 4.
    Matrix c = (1 - depth / 4.0) * Matrix::Identity(6, 6);
    for (int j = 0; j < 6; ++j) c((j + 1) % 6, j) += depth / 8.0, c((j + 5) % 6, j) += depth / 8.0;
    meter.add(0, depth, c, line(6));
  }
  meter.reduce(MPI_COMM_SELF);
  EXPECT_EQ(meter.own_share(), (std::vector<double>{1, 0.75, 0.5}));
  EXPECT_EQ(meter.own_largest(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(meter.half_distance(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(meter.by_group()[0], (DistanceProfile{1, 0, 0, 0, 0, 0, 0}));
  EXPECT_NEAR(meter.by_group()[1][1], 0.25 * 10 / 12, 1e-15);  // 2 of 12 edges join the ends of the line
  EXPECT_NEAR(meter.by_pair()[2][1], 0.25, 1e-15);
  EXPECT_TRUE(std::isnan(meter.by_pair()[2][6]));
}

TEST(ContributionAccumulator, refuses_what_does_not_fit) {
  EXPECT_THROW(ContributionAccumulator(0, 1, 1), BadInput);
  EXPECT_THROW(ContributionAccumulator(1, 0, 1), BadInput);
  EXPECT_THROW(ContributionAccumulator(1, 1, 0), BadInput);
  ContributionAccumulator meter(1, 1, 4);
  EXPECT_THROW(meter.add(0, 0, Matrix::Identity(5, 5), line(9)), BadInput);
  EXPECT_THROW(meter.add(0, 0, Matrix::Zero(4, 3), line(9)), BadInput);
}

}  // namespace
}  // namespace fluxformer::identifiability
