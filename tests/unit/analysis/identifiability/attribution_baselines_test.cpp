// Raw attention, rollout and norm-based attention against products and sums by hand.

#include "analysis/identifiability/attribution_baselines.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/identifiability/contributions.hpp"
#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

/// Three heads of width 4 on 6 tokens of width 10.
LayerHeads three_heads() {
  LayerHeads heads(3);
  for (unsigned h = 0; h < 3; ++h) {
    heads[h].weights = random_attention(6, h);
    heads[h].values = normal_matrix(6, 4, 10 + h);
    heads[h].output = normal_matrix(4, 10, 20 + h);
  }
  return heads;
}

constexpr double attribution_baselines_rounding =
    1e-14;  // sums of at most some tens of numbers of the order of 1

TEST(RawAttention, is_the_mean_over_heads) {
  const auto heads = three_heads();
  const Matrix mean = raw_attention(heads);
  for (int j = 0; j < 6; ++j)
    for (int i = 0; i < 6; ++i)
      EXPECT_NEAR(mean(j, i), (heads[0].weights(j, i) + heads[1].weights(j, i) + heads[2].weights(j, i)) / 3,
                  1e-16);
  EXPECT_NEAR(mean.row(2).sum(), 1, attribution_baselines_rounding);
}

TEST(Rollout, is_the_product_of_the_layers) {
  Matrix first(2, 2), second(2, 2);
  first << 1, 0, 0.5, 0.5;
  second << 0.2, 0.8, 0.4, 0.6;
  // Half identity: (1, 0; 1/4, 3/4) and (0.6, 0.4; 0.2, 0.8).
  const auto layers = rollout({first, second});
  ASSERT_EQ(layers.size(), 2u);
  Matrix one(2, 2), both(2, 2);
  one << 1, 0, 0.25, 0.75;
  both << 0.7, 0.3, 0.4, 0.6;
  EXPECT_LT((layers[0] - one).norm(), attribution_baselines_rounding);
  EXPECT_LT((layers[1] - both).norm(), attribution_baselines_rounding);
  EXPECT_TRUE(rollout({}).empty());
}

TEST(Rollout, keeps_rows_that_sum_to_1_and_causality) {
  std::vector<Matrix> attention;
  for (unsigned l = 0; l < 5; ++l) {
    Matrix a = random_attention(8, l).triangularView<Eigen::Lower>();
    for (int j = 0; j < 8; ++j) a.row(j) /= a.row(j).sum();
    attention.push_back(a);
  }
  for (const double step : {1.0, 0.25})
    for (const auto& layer : rollout(attention, step)) {
      EXPECT_LT((layer.rowwise().sum().array() - 1).abs().maxCoeff(), attribution_baselines_rounding);
      for (int j = 0; j < 8; ++j)
        for (int i = j + 1; i < 8; ++i) EXPECT_EQ(layer(j, i), 0);
    }
}

TEST(Rollout, with_a_depth_step_mixes_that_much) {
  const Matrix a = random_attention(5, 1);
  const Matrix mixed = with_residual(a, 0.25);
  EXPECT_LT((mixed - (Matrix::Identity(5, 5) + 0.25 * a) / 1.25).norm(), attribution_baselines_rounding);
  EXPECT_LT((with_residual(a) - 0.5 * (Matrix::Identity(5, 5) + a)).norm(), attribution_baselines_rounding);
  EXPECT_EQ(with_residual(a, 0), Matrix::Identity(5, 5));
}

TEST(Rollout, is_the_attribution_of_frozen_heads_that_only_mix_tokens) {
  // u <- (u + h A u) / (1 + h) on each channel: the blocks of the Jacobian are entries of the product times I.
  std::vector<Matrix> attention;
  for (unsigned l = 0; l < 4; ++l) attention.push_back(random_attention(7, l));
  for (const double step : {1.0, 0.5}) {
    Eigen::MatrixXd jacobian = Eigen::MatrixXd::Identity(7, 7);
    for (const auto& a : attention)
      jacobian = fluxformer::test::product(Eigen::MatrixXd::Identity(7, 7) + step * a, jacobian);
    const Matrix c = contributions_of_norms(jacobian.transpose());
    EXPECT_LT((c.transpose() - rollout(attention, step).back()).norm(), attribution_baselines_rounding);
  }
}

TEST(NormBasedAttention, is_the_norm_of_the_sum_over_heads) {
  const auto heads = three_heads();
  const Matrix found = norm_based_attention(heads);
  for (int j = 0; j < 6; ++j)
    for (int i = 0; i < 6; ++i) {
      std::vector<double> sum(10, 0.0);
      for (const auto& head : heads)
        for (int k = 0; k < 10; ++k)
          for (int v = 0; v < 4; ++v)
            sum[static_cast<std::size_t>(k)] += head.weights(j, i) * head.values(i, v) * head.output(v, k);
      EXPECT_NEAR(found(j, i), fluxformer::test::norm(sum), attribution_baselines_rounding);
    }
}

TEST(NormBasedAttention, of_heads_that_cancel_is_0) {
  auto heads = three_heads();
  heads.pop_back();
  heads[1] = heads[0];
  heads[1].output *= -1;
  EXPECT_LT(norm_based_attention(heads).norm(), attribution_baselines_rounding);
}

TEST(NormBasedAttention, of_unit_vectors_under_the_identity_is_attention) {
  AttentionHead head;
  head.weights = random_attention(6, 1);
  head.values = normal_matrix(6, 4, 2).rowwise().normalized();
  head.output = Matrix::Identity(4, 4);
  EXPECT_LT((norm_based_attention({head}) - head.weights).norm(), attribution_baselines_rounding);
  head.values *= 3;
  EXPECT_LT((norm_based_attention({head}) - 3 * head.weights).norm(), 3 * attribution_baselines_rounding);
}

TEST(Attention, of_no_heads_or_other_sizes_is_refused) {
  auto heads = three_heads();
  heads[1].weights = random_attention(5, 1);
  EXPECT_THROW(raw_attention(heads), BadInput);
  EXPECT_THROW(norm_based_attention(heads), BadInput);
  EXPECT_THROW(raw_attention({}), BadInput);
}

TEST(ScoresOfInputs, are_means_over_the_output_tokens_that_are_read) {
  const Matrix m = normal_matrix(4, 4, 1);
  const std::vector<int> last{3}, all{0, 1, 2, 3};
  const auto of_last = scores_of_inputs(m, last), of_all = scores_of_inputs(m, all);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto column = static_cast<int>(i);
    EXPECT_EQ(of_last[i], m(3, column));
    EXPECT_NEAR(of_all[i], (m(0, column) + m(1, column) + m(2, column) + m(3, column)) / 4,
                attribution_baselines_rounding);
  }
  EXPECT_THROW(scores_of_inputs(m, std::vector<int>{}), BadInput);
  EXPECT_THROW(scores_of_inputs(m, std::vector<int>{4}), BadInput);
  EXPECT_THROW(scores_of_inputs(m, std::vector<int>{-1}), BadInput);
}

}  // namespace
}  // namespace fluxformer::identifiability
