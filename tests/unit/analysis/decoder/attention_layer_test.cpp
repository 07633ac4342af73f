// Several heads with output projections against hyper-dual numbers.

#include "analysis/decoder/attention_layer.hpp"

#include <gtest/gtest.h>

#include "analysis/decoder/row_maps.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

constexpr Index tokens = 5, d = 4, k = 2, e = 3, heads = 2;
constexpr double rho = 0.7, epsilon = 1e-3;

TEST(Heads, equal_hyper_dual_numbers_block_by_block) {
  const Matrix x = fill(110, tokens, d), target = fill(210, tokens, d);
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    for (const bool normed_output : {false, true}) {
      const AttentionForm form{scores, Mask::causal, 0.6};
      std::vector<DecoderHead> all;
      Vector theta(0);
      std::vector<Index> begin{0};  // of every matrix of every head
      for (int h = 0; h < heads; ++h) {
        const DecoderAttentionWeights weights{0.7 * fill(50 + h, d, e), 0.9 * fill(60 + h, d, k),
                                              0.8 * fill(70 + h, d, k)};
        const Matrix output = 0.8 * fill(80 + h, e, d);
        all.push_back({{x, weights, form}, output});
        const Index old = theta.size();
        theta.conservativeResize(old + all.back().size());
        theta.tail(all.back().size()) << flattened(weights),
            Eigen::Map<const Vector>(output.data(), output.size());
        for (const Index size : {d * e, d * k, d * k, e * d}) begin.push_back(begin.back() + size);
      }
      Tail tail = squared_error(target, 0.05);
      if (normed_output) tail = behind(layer_norm(epsilon), tail);
      const DecoderHeads layer(all, behind(shifted(rho * x), tail), every_row(tokens));

      const auto outputs = [&](const auto& at) {
        using T = typename std::decay_t<decltype(at)>::value_type;
        const Table<T> input(x);
        Table<T> r{Matrix(rho * x)};
        std::size_t position = 0;
        for (int h = 0; h < heads; ++h) {
          const Table<T> v = take(at, position, d, e), q = take(at, position, d, k),
                         key = take(at, position, d, k);
          const Table<T> output = take(at, position, e, d);
          r = plus(r, times(attend(times(input, q), times(input, key), times(input, v), form), output));
        }
        return (normed_output ? normed(r, epsilon) : r).entries;
      };
      const auto numeric = numeric_derivatives(
          outputs, [&](const auto& y) { return squared_error_of(y, target, 0.05); }, theta);
      EXPECT_NEAR(layer.loss(), numeric.loss, 1e-14);
      EXPECT_LT((layer.gradient() - numeric.gradient).norm(), 1e-13 * numeric.gradient.norm());
      const Matrix rest = numeric.hessian - numeric.outer;
      for (const HessianTerm part : {HessianTerm::outer, HessianTerm::functional}) {
        const Matrix h = layer.hessian(part);
        const Matrix expected = part == HessianTerm::outer ? Matrix(numeric.outer) : rest;
        for (std::size_t a = 0; a + 1 < begin.size(); ++a) {
          for (std::size_t b = 0; b + 1 < begin.size(); ++b) {
            const auto of = [&](const Matrix& m) -> Matrix {
              return m.block(begin[a], begin[b], begin[a + 1] - begin[a], begin[b + 1] - begin[b]);
            };
            // Zero blocks of H_f: up to round-off of H_o, from which the reference is subtracted.
            EXPECT_LT(reached("heads against hyper-dual numbers",
                              difference(of(h), of(expected), of(numeric.outer).norm())),
                      1e-9)
                << a << ' ' << b;
          }
        }
      }
      EXPECT_LT((layer.hessian(HessianTerm::total) - numeric.hessian).norm(), 1e-12 * numeric.hessian.norm());
    }
  }
}

}  // namespace
}  // namespace fluxformer::decoder

// Norms of blocks without the blocks.

namespace fluxformer::decoder {
namespace {

using namespace test;

// 80 rows, more than one tile of them. Rows 1 and up are scored; the LayerNorm makes B^f, and with it the
// functional part of VV, non-zero.
std::vector<AttentionLayer> twenty_sequences(Scores scores) {
  const LayerCase at{5, 4, 3, 4, 20};
  std::vector<AttentionLayer> layers;
  for (Index n = 0; n < at.sequences; ++n) {
    layers.emplace_back(AttentionMap(at.tokens_of(n), at.weights(), at.form(scores, Mask::causal)),
                        behind(shifted(0.5 * at.tokens_of(n)),
                               behind(layer_norm(1e-3), squared_error(at.target_of(n, 4), at.mean(4)))),
                        std::vector<Index>{1, 2, 3, 4});
  }
  return layers;
}

TEST(BlockNorms, equal_those_of_the_dense_blocks) {
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    const auto layers = twenty_sequences(scores);
    for (const HessianTerm part : {HessianTerm::total, HessianTerm::outer, HessianTerm::functional}) {
      const Matrix h = summed_hessian(layers, part);
      for (int a = 0; a < 3; ++a) {
        for (int b = a; b < 3; ++b) {
          const double expected = block(h, layers[0].map(), all_weights[a], all_weights[b]).norm();
          const double found = block_norm(layers, all_weights[a], all_weights[b], part);
          EXPECT_LT(reached("norms without blocks", std::abs(found - expected) / expected), 1e-12)
              << name_of(all_weights[a]) << name_of(all_weights[b]);
        }
      }
    }
  }
}

TEST(BlockNorms, are_sums_of_inner_products_over_shares_of_the_sequences) {
  const auto layers = twenty_sequences(Scores::softmax);
  const std::vector<AttentionLayer> mine(layers.begin(), layers.begin() + 1),
      others(layers.begin() + 1, layers.end());
  for (int a = 0; a < 3; ++a) {
    for (int b = a; b < 3; ++b) {
      const auto f = block_factors(mine, all_weights[a], all_weights[b], HessianTerm::total);
      const auto g = block_factors(others, all_weights[a], all_weights[b], HessianTerm::total);
      const double whole = block_norm(layers, all_weights[a], all_weights[b], HessianTerm::total);
      EXPECT_NEAR(inner_product(f, f) + 2 * inner_product(f, g) + inner_product(g, g), whole * whole,
                  1e-13 * whole * whole);
      EXPECT_NEAR(inner_product(f, g), inner_product(g, f), 1e-13 * whole * whole);
    }
  }
}

}  // namespace
}  // namespace fluxformer::decoder
