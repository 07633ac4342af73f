// Norms of blocks without the blocks.

#include <gtest/gtest.h>

#include "analysis/decoder/attention_layer.hpp"
#include "analysis/decoder/row_maps.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

// 80 rows, more than one tile of them. Rows 1 and up are scored; the LayerNorm makes B^f, and with it the functional part of VV, non-zero.
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
