// Raw attention, rollout and norm-based attention against products and sums by hand.

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/identifiability/attribution_baselines.hpp"
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

TEST(Rollout, gives_every_layer_its_own_step) {
  Matrix first(2, 2), second(2, 2), both(2, 2);
  first << 1, 0, 0.5, 0.5;
  second << 0.2, 0.8, 0.4, 0.6;
  // Steps 1 and 3: (1, 0; 1/4, 3/4) and (I + 3 second) / 4 = (0.4, 0.6; 0.3, 0.7).
  both << 0.4 + 0.15, 0.45, 0.3 + 0.175, 0.525;
  EXPECT_LT((rollout({first, second}, std::vector{1.0, 3.0}).back() - both).norm(),
            attribution_baselines_rounding);
}

TEST(Rollout, keeps_rows_that_sum_to_1_and_causality) {
  std::vector<Matrix> attention;
  for (unsigned l = 0; l < 5; ++l) {
    Matrix a = random_attention(8, l).triangularView<Eigen::Lower>();
    for (int j = 0; j < 8; ++j) a.row(j) /= a.row(j).sum();
    attention.push_back(a);
  }
  for (const double step : {1.0, 0.25})
    for (const auto& layer : rollout(attention, std::vector(attention.size(), step))) {
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
  // u <- (u + h A u) / (1 + h) on each channel: the blocks of the Jacobian are entries of the product times
  // I.
  std::vector<Matrix> attention;
  for (unsigned l = 0; l < 4; ++l) attention.push_back(random_attention(7, l));
  for (const double step : {1.0, 0.5}) {
    Eigen::MatrixXd jacobian = Eigen::MatrixXd::Identity(7, 7);
    for (const auto& a : attention)
      jacobian = fluxformer::test::product(Eigen::MatrixXd::Identity(7, 7) + step * a, jacobian);
    const Matrix c = contributions_of_norms(jacobian.transpose());
    EXPECT_LT((c.transpose() - rollout(attention, std::vector(attention.size(), step)).back()).norm(),
              attribution_baselines_rounding);
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
          for (int v = 0; v < 4; ++v) sum[k] += head.weights(j, i) * head.values(i, v) * head.output(v, k);
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
  SampleHead head;
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

// Attention flow by hand, against every cut, and against the flows that are known.

std::vector<int> all_of(int tokens) {
  std::vector<int> list(static_cast<std::size_t>(tokens));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

std::vector<Matrix> random_layers(int layers, int tokens, double spread, unsigned seed) {
  std::vector<Matrix> attention;
  for (int l = 0; l < layers; ++l)
    attention.push_back(random_attention(tokens, seed + static_cast<unsigned>(l), spread));
  return attention;
}

/// The least capacity of all cuts: each subset of the nodes between the layers on the side of the source.
double least_cut(const std::vector<Matrix>& attention, int output, int input, double step) {
  const int n = static_cast<int>(attention[0].rows()), sets = static_cast<int>(attention.size()) - 1;
  std::vector<Matrix> capacity;
  for (const auto& a : attention) capacity.push_back((step * a + Matrix::Identity(n, n)) / (1 + step));
  double least = INFINITY;
  for (unsigned side = 0; side < 1u << (n * sets); ++side) {
    const auto near = [&](int set, int token) { return (side >> (set * n + token) & 1u) == 1u; };
    double cut = 0;
    for (int k = 0; k < n; ++k) {
      if (!near(sets - 1, k)) cut += capacity.back()(output, k);
      if (near(0, k)) cut += capacity.front()(k, input);
    }
    for (int s = 1; s < sets; ++s)
      for (int q = 0; q < n; ++q)
        for (int k = 0; k < n; ++k)
          if (near(s, q) && !near(s - 1, k)) cut += capacity[s](q, k);
    least = std::min(least, cut);
  }
  return least;
}

constexpr double rounding = 1e-14;  // sums and differences of some tens of capacities of at most 1

TEST(AttentionFlow, through_one_layer_is_the_capacity) {
  const Matrix a = random_attention(5, 1);
  EXPECT_LT((attention_flow({a}, all_of(5)) - with_residual(a)).norm(), rounding);
}

TEST(AttentionFlow, through_two_layers_is_the_narrower_edge_of_each_path) {
  Matrix first(2, 2), second(2, 2), expected(2, 2);
  first << 1, 0, 0.5, 0.5;       // capacities 1, 0; 0.25, 0.75
  second << 0.2, 0.8, 0.4, 0.6;  // capacities 0.6, 0.4; 0.2, 0.8
  expected << 0.6 + 0.25, 0 + 0.4, 0.2 + 0.25, 0 + 0.75;
  EXPECT_LT((attention_flow({first, second}, all_of(2)) - expected).norm(), rounding);
}

TEST(AttentionFlow, gives_every_layer_its_own_step) {
  Matrix first(2, 2), second(2, 2), expected(2, 2);
  first << 1, 0, 0.5, 0.5;       // with step 1: capacities 1, 0; 0.25, 0.75
  second << 0.2, 0.8, 0.4, 0.6;  // with step 3: capacities 0.4, 0.6; 0.3, 0.7
  expected << 0.4 + 0.25, 0 + 0.6, 0.3 + 0.25, 0 + 0.7;
  EXPECT_LT((attention_flow({first, second}, all_of(2), std::vector{1.0, 3.0}) - expected).norm(), rounding);
}

TEST(AttentionFlow, through_three_layers_is_that_by_hand) {
  // Token 1 sees only token 0 in layer 2, token 0 only itself: with the residual connection 1 -> 1 and 1 -> 0
  // carry 1/2.
  Matrix still = Matrix::Identity(2, 2), down(2, 2), mixed(2, 2);
  down << 1, 0, 1, 0;
  mixed << 0.5, 0.5, 0.5, 0.5;  // capacities 3/4 and 1/4
  // From 1 above to 0 below: edges 1 -> 0 (1/4) and 1 -> 1 (3/4) of layer 3; then 0 -> 0 (1), 1 -> 0 (1/2), 1
  // -> 1 (1/2); below 0 -> 0 (1), and nothing from 1 to 0.
  const auto flow = attention_flow({still, down, mixed}, all_of(2));
  EXPECT_NEAR(flow(1, 0), 0.25 + 0.5, rounding);
  EXPECT_NEAR(flow(1, 1), 0.5, rounding);
  EXPECT_NEAR(flow(0, 0), 0.75 + 0.25, rounding);
  EXPECT_NEAR(flow(0, 1), 0.25, rounding);
}

TEST(AttentionFlow, is_the_least_cut) {
  for (const auto& [layers, tokens] : {std::pair{2, 5}, {3, 4}, {4, 4}, {3, 5}, {5, 3}})
    for (unsigned seed = 1; seed <= 3; ++seed)
      for (const double step : {1.0, 0.3}) {
        const auto attention = random_layers(layers, tokens, 2, 10 * seed);
        const auto flow = attention_flow(attention, all_of(tokens), std::vector(attention.size(), step));
        for (int j = 0; j < tokens; ++j)
          for (int i = 0; i < tokens; ++i)
            EXPECT_NEAR(flow(j, i), least_cut(attention, j, i, step), rounding) << layers << ' ' << tokens;
      }
}

TEST(AttentionFlow, lies_between_rollout_and_the_capacities_at_both_ends) {
  constexpr int n = 12;
  const auto attention = random_layers(6, n, 3, 1);
  const auto flow = attention_flow(attention, all_of(n));
  const Matrix rolled = rollout(attention).back(), first = with_residual(attention[0]);
  int below = 0, reached = 0;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      const double bound = std::min(1.0, first.col(i).sum());
      EXPECT_GE(flow(j, i), rolled(j, i) - rounding);
      EXPECT_LE(flow(j, i), bound + rounding);
      flow(j, i) < bound - 1e-3 ? ++below : ++reached;
    }
  // Both ways to the result are taken: at once where the bound is reached, and by push-relabel.
  EXPECT_GT(below, 0);
  EXPECT_GT(reached, 0);
}

TEST(AttentionFlow, of_many_deep_layers_knows_the_first_layer_only) {
  const auto attention = random_layers(6, 20, 1, 1);
  const auto flow = attention_flow(attention, all_of(20));
  const Matrix first = with_residual(attention[0]);
  for (int j = 0; j < 20; ++j)
    for (int i = 0; i < 20; ++i) EXPECT_NEAR(flow(j, i), std::min(1.0, first.col(i).sum()), rounding);
}

TEST(AttentionFlow, of_causal_layers_never_comes_from_later_tokens) {
  constexpr int n = 7;
  auto attention = random_layers(4, n, 1, 1);
  for (auto& a : attention) {
    a = Matrix(a.triangularView<Eigen::Lower>());
    for (int j = 0; j < n; ++j) a.row(j) /= a.row(j).sum();
  }
  const auto flow = attention_flow(attention, all_of(n));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i)
      if (i > j) {
        EXPECT_EQ(flow(j, i), 0);
      } else {
        EXPECT_GT(flow(j, i), 0);
      }
  EXPECT_NEAR(flow(0, 0), 1, rounding);
}

TEST(AttentionFlow, of_some_output_tokens_are_their_rows) {
  const auto attention = random_layers(3, 6, 2, 1);
  const auto all = attention_flow(attention, all_of(6));
  const auto some = attention_flow(attention, std::vector<int>{4, 1});
  EXPECT_EQ(some.row(0), all.row(4));
  EXPECT_EQ(some.row(1), all.row(1));
  const auto shares = flow_shares(all);
  for (int j = 0; j < 6; ++j) {
    EXPECT_NEAR(shares.row(j).sum(), 1, rounding);
    EXPECT_NEAR(shares(j, 2), all(j, 2) / all.row(j).sum(), rounding);
  }
}

TEST(AttentionFlow, of_layers_without_sense_is_refused) {
  const auto attention = random_layers(2, 4, 1, 1);
  EXPECT_THROW(attention_flow({}, all_of(4)), BadInput);
  EXPECT_THROW(attention_flow({attention[0], random_attention(5, 1)}, all_of(4)), BadInput);
  EXPECT_THROW(attention_flow({attention[0], -attention[1]}, all_of(4)), BadInput);
  EXPECT_THROW(attention_flow(attention, all_of(5)), BadInput);
  EXPECT_THROW(attention_flow(attention, std::vector<int>{-1}), BadInput);
}

}  // namespace
}  // namespace fluxformer::identifiability
