// Effective attention: exact identities, what is measured of it, and its null control.

#include "analysis/identifiability/effective_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/analysis/identifiability/random_heads.hpp"

namespace fluxformer::identifiability {
namespace {

using namespace test;
using Eigen::MatrixXd;

constexpr double effective_attention_rounding = 1e-12;  // numbers are of size 1 to 100
constexpr auto linear = EffectivePart::linear;
constexpr auto simplex = EffectivePart::simplex;

double largest(const Matrix& a) {
  return a.cwiseAbs().maxCoeff();
}

/// Heads with full rank, with lost rank in H, in V and with fewer tokens than d_v, with a mask and without.
std::vector<SampleHead> various_heads() {
  std::vector<SampleHead> heads;
  for (const bool causal : {false, true}) {
    heads.push_back(random_head(30, 8, 8, 1, causal));
    heads.push_back(random_head(6, 8, 8, 2, causal));
    heads.push_back(random_head(20, 8, 8, 3, causal));
    heads.back().output = random_matrix(8, 5, 31);
    heads.push_back(random_head(20, 8, 8, 4, causal));
    heads.back().values.col(7) = heads.back().values.col(0) - heads.back().values.col(2);
    heads.push_back(random_head(12, 8, 8, 5, causal));
    heads.back().values.row(3) = heads.back().values.row(1);
    heads.back().values.row(5).setZero();
  }
  return heads;
}

TEST(EffectiveAttention, has_the_output_of_the_raw_one_and_no_larger_norm) {
  for (const auto& head : various_heads())
    for (const auto part : {linear, simplex}) {
      const Matrix effective = effective_attention(head, part), t = transformed(head);
      EXPECT_LT(largest(effective * t - head.weights * t), effective_attention_rounding);
      EXPECT_LE(effective.norm(), head.weights.norm() * (1 + 1e-15));
      for (Index i = 0; head.causal && i < head.tokens(); ++i)
        EXPECT_EQ(effective.row(i).tail(head.tokens() - i - 1).norm(), 0);
    }
}

TEST(EffectiveAttention, taken_twice_is_taken_once) {
  for (auto head : various_heads())
    for (const auto part : {linear, simplex}) {
      const Matrix once = effective_attention(head, part);
      auto again = head;
      again.weights = once;
      EXPECT_LT(largest(effective_attention(again, part) - once), effective_attention_rounding);
    }
}

TEST(EffectiveAttention, of_the_simplex_keeps_row_sums) {
  for (const auto& head : various_heads()) {
    const Matrix effective = effective_attention(head, simplex);
    EXPECT_LT((effective.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-14);
  }
}

TEST(EffectiveAttention, is_the_raw_one_where_every_token_counts) {
  for (const Index n : {5, 8}) {
    const auto head = random_head(n, 8, 8, 6);
    EXPECT_EQ(effective_attention(head, linear), head.weights);
    EXPECT_EQ(effective_attention(head, simplex), head.weights);
  }
  const auto nine = random_head(9, 8, 8, 6);  // linear nullity 1, simplex nullity 0
  EXPECT_GT(largest(effective_attention(nine, linear) - nine.weights), 1e-3);
  EXPECT_EQ(effective_attention(nine, simplex), nine.weights);
}

/// X T T^+ with the pseudo-inverse from the normal equations: an oracle for well conditioned T.
Matrix by_normal_equations(const Matrix& weights, const MatrixXd& t) {
  const MatrixXd gram = t.transpose() * t;
  const MatrixXd q = fluxformer::test::orthogonal_factor(gram);
  const MatrixXd r = q.transpose() * gram;
  const MatrixXd solved = r.triangularView<Eigen::Upper>().solve(q.transpose() * t.transpose());
  return weights * t * solved;
}

TEST(EffectiveAttention, is_the_least_norm_solution) {
  const auto head = random_head(30, 6, 6, 7);
  // The condition of T^T T is below 1e3 here: errors below 1e-12.
  EXPECT_LT(largest(effective_attention(head, linear) - by_normal_equations(head.weights, head.values)),
            1e-12);
  MatrixXd ones(30, 7);
  ones << head.values, Eigen::VectorXd::Ones(30);
  EXPECT_LT(largest(effective_attention(head, simplex) - by_normal_equations(head.weights, ones)), 1e-12);
}

TEST(EffectiveAttention, of_causal_rows_is_that_of_the_visible_tokens_alone) {
  for (const auto& head : various_heads()) {
    if (!head.causal) continue;
    for (const auto part : {linear, simplex}) {
      const Matrix effective = effective_attention(head, part);
      for (int i = 0; i < head.tokens(); ++i) {
        auto alone = head.first(i + 1);
        alone.causal = false;
        const Matrix row = effective_attention(alone, part).row(i);
        EXPECT_LT(largest(effective.row(i).head(i + 1) - row), effective_attention_rounding) << i;
      }
    }
  }
}

TEST(EffectiveMeasures, of_a_matrix_by_hand) {
  SampleHead head;
  head.weights.resize(2, 2);
  head.weights << 0.75, 0.25, 0.5, 0.5;
  Matrix effective(2, 2);
  effective << 0.2, 0.6, -0.2, 0.2;
  const auto found = effective_measures(head, effective);
  // Deviations: (0.25, -0.25, 0, 0) and (0, 0.4, -0.4, 0).
  EXPECT_NEAR(found.correlation, -0.1 / std::sqrt(0.125 * 0.32), 1e-14);
  EXPECT_NEAR(found.row_sum, 0.4, 1e-15);
  EXPECT_NEAR(found.kept_norm, std::sqrt(0.48 / 1.125), 1e-15);
  EXPECT_DOUBLE_EQ(found.negative_share, 0.25);
  const auto entropy = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
  EXPECT_NEAR(found.entropy, (entropy(0.25) + std::log(2)) / 2, 1e-15);
  EXPECT_NEAR(found.effective_entropy, (entropy(0.25) + std::log(2)) / 2, 1e-15);
  EXPECT_DOUBLE_EQ(found.moved_share, 1);  // signed: -0.2 is not large; the first of equal ones counts
  EXPECT_EQ(largest_weights(head, effective), (std::vector<int>{1, 1}));
  EXPECT_EQ(largest_weights(head, head.weights), (std::vector<int>{0, 0}));
}

// Words that repeat, in a model that adds no positions to them: raw weights may differ, by rotary positions, but
// what acts of equal tokens is the same, and round-off must not say which is larger.
TEST(EffectiveMeasures, find_the_first_of_equal_tokens_whatever_the_round_off) {
  for (const bool causal : {false, true}) {
    auto head = random_head(9, 5, 8, 21, causal);
    const std::vector<int> twins{3, 6, 8};  // of token 1
    for (const int twin : twins) head.values.row(twin) = head.values.row(1);
    head.weights.col(1) *= 20;
    for (const int twin : twins) head.weights.col(twin) *= 20;
    auto effective = effective_attention(head, linear);
    const auto found = largest_weights(head, effective);
    EXPECT_GT(std::ranges::count(found, 1), 4);
    EXPECT_GT(std::ranges::count(largest_weights(head, head.weights), 3), 0);
    for (const int twin : twins) {
      EXPECT_EQ(std::ranges::count(found, twin), 0);
      effective.col(twin) *= 1 + 1e-13;
    }
    EXPECT_EQ(largest_weights(head, effective), found);
  }
}

TEST(EffectiveMeasures, do_not_count_round_off_as_negative_weights) {
  SampleHead head;
  head.weights = Matrix::Constant(2, 2, 0.5);
  Matrix effective(2, 2);
  effective << 1, -1e-17, 1, -1e-12;
  EXPECT_DOUBLE_EQ(effective_measures(head, effective).negative_share, 0.25);
}

TEST(EffectiveMeasures, of_causal_heads_count_visible_entries) {
  SampleHead head;
  head.causal = true;
  head.weights.resize(2, 2);
  head.weights << 1, 0, 0.25, 0.75;
  Matrix effective(2, 2);
  effective << -0.5, 0, -0.75, 0.25;
  const auto found = effective_measures(head, effective);
  // (1, 1/4, 3/4) against (-1/2, -3/4, 1/4): deviations (1/3, -5/12, 1/12) and (-1/6, -5/12, 7/12).
  EXPECT_NEAR(found.correlation, (-8.0 + 25 + 7) / 12 / 12 / std::sqrt(42.0 / 144 * 78 / 144), 1e-14);
  EXPECT_NEAR(found.negative_share, 2 / 3.0, 1e-15);
  EXPECT_EQ(found.moved_share, 0);  // row 0 sees one key, though 0 > -0.5
  EXPECT_NEAR(found.row_sum, -0.5, 1e-15);
}

TEST(EffectiveMeasures, of_equal_matrices_and_of_constant_or_not_finite_ones) {
  auto head = random_head(7, 8, 8, 8);
  const auto same = effective_measures(head, head.weights);
  EXPECT_NEAR(same.correlation, 1, 1e-14);
  EXPECT_NEAR(same.row_sum, 1, 1e-14);
  EXPECT_EQ(same.kept_norm, 1);
  EXPECT_EQ(same.negative_share, 0);
  EXPECT_EQ(same.moved_share, 0);
  EXPECT_EQ(same.entropy, same.effective_entropy);
  head.weights.setConstant(1 / 7.0);
  EXPECT_TRUE(std::isnan(effective_measures(head, head.weights).correlation));
  head.values(0, 0) = NAN;
  for (const bool causal : {false, true}) {
    head.causal = causal;
    EXPECT_TRUE(std::isnan(effective_measures(head, effective_attention(head, linear)).row_sum));
  }
}

TEST(EffectiveNull, of_all_rows_is_the_closed_formula) {
  const auto head = random_head(40, 8, 8, 9);
  const double rho = 0.2, c2 = 40 * head.weights.squaredNorm() / 40 - 1;
  const auto null = expected_null(head, 8, linear);
  EXPECT_NEAR(null.correlation, std::sqrt(rho) / std::sqrt(1 + (1 - rho) / c2), 1e-12);
  EXPECT_NEAR(null.row_sum, rho, 1e-15);
  EXPECT_NEAR(null.row_sum_spread, std::sqrt(2 * rho * (1 - rho) / 42), 1e-15);
  EXPECT_NEAR(expected_null(head, 8, simplex).correlation, std::sqrt(8 / 39.0), 1e-12);
  EXPECT_NEAR(expected_null(head, 8, simplex).row_sum, 1, 1e-15);
  for (const auto part : {linear, simplex})  // nothing is projected away
    EXPECT_NEAR(expected_null(head, 40, part).correlation, 1, 1e-14);
}

TEST(EffectiveNull, agrees_with_two_hundred_random_values) {
  for (const bool causal : {false, true})
    for (const auto part : {linear, simplex}) {
      const auto head = random_head(40, 8, 8, 10, causal);
      const auto formula = expected_null(head, 8, part);
      const auto drawn = drawn_null(head, 8, part, 200, RandomStream(3, "null"));
      // 4 standard errors of 200 draws, and the formula's own error of some 1/n of the correlation.
      const double error = 4 / std::sqrt(200.0);
      EXPECT_NEAR(drawn.correlation, formula.correlation,
                  error * drawn.correlation_spread + 0.5 / 40 * formula.correlation);
      EXPECT_NEAR(drawn.row_sum, formula.row_sum, error * drawn.row_sum_spread + 1e-13);
      EXPECT_GT(drawn.correlation_spread, 0);
      EXPECT_EQ(std::isnan(formula.row_sum_spread), causal && part == linear);
    }
}

TEST(EffectiveNull, has_the_spread_of_the_formula_for_equal_rows) {
  auto head = random_head(40, 8, 8, 11);
  head.weights.setConstant(1 / 40.0);
  const auto formula = expected_null(head, 8, linear);
  const auto drawn = drawn_null(head, 8, linear, 400, RandomStream(4, "null"));
  // A standard deviation from 400 draws has a relative error of 1/sqrt(800) = 3.5 %: four of them.
  EXPECT_NEAR(drawn.row_sum_spread / formula.row_sum_spread, 1, 0.15);
  EXPECT_TRUE(std::isnan(formula.correlation));
}

TEST(EffectiveNull, is_what_attention_aligned_with_the_values_exceeds) {
  auto head = random_head(40, 8, 8, 12);
  const Matrix inside =
      head.values * random_matrix(8, 40, 77);  // columns in col(T), so rows of its transpose
  head.weights = inside.transpose().array().exp();
  for (Index i = 0; i < 40; ++i) head.weights.row(i) /= head.weights.row(i).sum();
  const auto found = effective_measures(head, effective_attention(head, linear));
  EXPECT_GT(found.correlation, expected_null(head, 8, linear).correlation + 0.1);
}

}  // namespace
}  // namespace fluxformer::identifiability
