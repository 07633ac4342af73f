// Other weights with the same output: that they are weights, that the output is the same, how far they are.

#include "analysis/identifiability/alternative_weights.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/identifiability/nullities.hpp"
#include "tests/unit/analysis/identifiability/random_heads.hpp"

namespace fluxformer::identifiability {
namespace {

using namespace test;

const RandomStream stream(5, "alternative weights");

AlternativeWeights alternative_of(const SampleHead& head, AlternativeSearch search = {}) {
  return alternative_weights(head, search, stream);
}

/// Expects what must hold of every alternative.
void expect_valid(const SampleHead& head, const AlternativeWeights& found) {
  EXPECT_GE(found.weights.minCoeff(), 0);
  EXPECT_LT((found.weights.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-13);
  const Matrix t = transformed(head);
  const Matrix change = found.weights * t - head.weights * t;
  EXPECT_LT(change.cwiseAbs().maxCoeff() / t.cwiseAbs().maxCoeff(), 1e-12);
  EXPECT_LT(found.output_difference, 1e-12);
  for (Index i = 0; i < head.tokens(); ++i)
    EXPECT_NEAR(found.total_variation[i], (found.weights.row(i) - head.weights.row(i)).cwiseAbs().sum() / 2,
                1e-15);
}

TEST(AlternativeWeights, are_far_away_with_the_same_output_where_the_nullity_is_large) {
  const auto head = random_head(40, 8, 8, 1);
  const auto found = alternative_of(head);
  expect_valid(head, found);
  EXPECT_GT(found.total_variation.minCoeff(), 0.01);
  EXPECT_GT(found.mean_variation(), 0.1);
}

TEST(AlternativeWeights, are_the_weights_themselves_where_they_are_unique) {
  for (const Index n : {6, 9}) {  // below d_v, and d_v + 1
    const auto head = random_head(n, 8, 8, 2);
    const auto found = alternative_of(head);
    EXPECT_EQ(found.weights, head.weights);
    EXPECT_EQ(found.mean_variation(), 0);
    EXPECT_EQ(found.output_difference, 0);
  }
}

TEST(AlternativeWeights, of_two_equal_tokens_move_all_that_one_of_them_has) {
  auto head = random_head(6, 8, 8, 3);
  head.values.row(4) = head.values.row(1);
  const auto found = alternative_of(head);
  expect_valid(head, found);
  // The one direction of freedom: the larger of both weights goes to the other token.
  for (Index i = 0; i < 6; ++i)
    EXPECT_NEAR(found.total_variation[i], std::max(head.weights(i, 1), head.weights(i, 4)), 1e-12);
  // One random direction is enough, as both signs of it are tried. Its part in the null space may be small:
  // hence some hundred roundings.
  const auto fast = alternative_of(head, {.steps = 1, .random = 1, .largest = 0});
  EXPECT_LT((fast.total_variation - found.total_variation).cwiseAbs().maxCoeff(), 1e-12);
}

TEST(AlternativeWeights, with_equal_values_reach_a_corner_of_the_simplex) {
  auto head = random_head(5, 3, 3, 4);
  head.values.rowwise() = Eigen::RowVector3d(1, -2, 0.5);
  const auto found = alternative_of(head, {.steps = 20});
  expect_valid(head, found);
  for (Index i = 0; i < 5; ++i)  // A corner e_j is 1 - a_j away; that of the largest weight is the nearest.
    EXPECT_GT(found.total_variation[i], 1 - head.weights.row(i).maxCoeff() - 1e-14);
}

TEST(AlternativeWeights, are_near_where_all_mass_sits_on_a_token_that_has_no_equal) {
  auto head = random_head(40, 8, 8, 5);
  // The first value is a corner of the convex hull of all: a row with 1 - 1e-6 there can move little.
  head.values.row(0).setConstant(30);
  head.weights.setConstant(1e-6 / 39);
  head.weights.col(0).setConstant(1 - 1e-6);
  const auto found = alternative_of(head);
  expect_valid(head, found);
  EXPECT_EQ(nullities(head).simplex.exact, 31);
  EXPECT_GT(found.mean_variation(), 1e-9);
  EXPECT_LT(found.mean_variation(), 1e-6);
}

TEST(AlternativeWeights, of_causal_heads_stay_below_the_diagonal_and_begin_after_d_v) {
  const auto head = random_head(16, 4, 4, 6, true);
  const auto found = alternative_of(head);
  expect_valid(head, found);
  for (Index i = 0; i < 16; ++i) {
    EXPECT_EQ(found.weights.row(i).tail(15 - i).cwiseAbs().sum(), 0);
    // Row i has i + 1 tokens and the rank min(i + 1, d_v + 1) of [T, 1].
    EXPECT_EQ(found.total_variation[i] > 0, i > 4) << i;
  }
}

TEST(AlternativeWeights, are_not_nearer_after_more_steps) {
  const auto head = random_head(30, 6, 6, 7);
  double before = 0;
  for (const int steps : {1, 3, 12}) {
    const double now = alternative_of(head, {.steps = steps}).mean_variation();
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(AlternativeWeights, of_peaked_rows_are_valid_to_round_off) {
  auto head = random_head(40, 8, 8, 8);
  head.weights = softmax_of(6 * head.queries, head.keys, false);  // weights down to 1e-40
  const auto found = alternative_of(head);
  expect_valid(head, found);
  EXPECT_GT(found.mean_variation(), 1e-3);
}

TEST(AlternativeWeights, of_numbers_that_are_not_finite_are_nan) {
  auto head = random_head(6, 2, 2, 1);
  head.values(1, 1) = NAN;
  EXPECT_TRUE(std::isnan(alternative_of(head).mean_variation()));
}

}  // namespace
}  // namespace fluxformer::identifiability
