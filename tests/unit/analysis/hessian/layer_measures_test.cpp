#include "analysis/hessian/layer_measures.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/hessian/decoder_products.hpp"

namespace fluxformer::hessian {
namespace {

TEST(EntrySizes, are_the_shares_and_quantiles_of_absolute_values) {
  Matrix matrix(2, 5);
  matrix << 1e-3, -1e-2, 0, 5e-2, 1e-1, -1, 2, 20, 300, 1e9;
  const auto sizes = entry_sizes(matrix, {-3, -1, 0.5, 3});
  // Of ten: 1e-3, 1e-2, 5e-2 | 1e-1, 1, 2 | 20, 300; 0 and 1e9 lie outside.
  EXPECT_EQ(sizes.shares, (std::vector<double>{0.3, 0.3, 0.2}));
  EXPECT_DOUBLE_EQ(sizes.median, -1);                        // number 4 of 0 .. 9
  EXPECT_DOUBLE_EQ(sizes.largest_percent, std::log10(300));  // number 8
}

LayerStudy small(Index depth) {
  LayerStudy study;
  study.shape = {.width = 4, .hidden = 6, .depth = depth};
  study.sequences = 3;
  study.probes = 400;
  return study;
}

TEST(BlockNorms, of_one_layer_are_those_of_its_blocks) {
  const auto study = small(1);
  auto weights = initial_decoder(study.shape, study.seed);
  scale_embeddings(weights, study.seed, 0.3);
  const auto norms = block_norms(study, 0.3);
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  const DecoderProducts products(study.shape, weights, batch, study.loss,
                                 1.0 / static_cast<double>(batch.scored()));
  std::size_t at = 0;
  for (const auto part : all_parts)
    for (const char* name : {"W_V", "W_Q", "W_K"})
      for (const auto& block : parameter_blocks(study.shape))
        if (block.name == name) {
          const double expected = products.block(part, block.begin, block.size()).norm();
          EXPECT_NEAR(norms[at++], expected, 1e-12 * (1 + expected)) << name;
        }
  EXPECT_EQ(at, norms.size());
}

TEST(BlockNorms, of_several_layers_are_estimated_within_their_spread) {
  const auto study = small(2);
  auto weights = initial_decoder(study.shape, study.seed);
  scale_embeddings(weights, study.seed, 0.3);
  const auto norms = block_norms(study, 0.3);
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  const DecoderProducts products(study.shape, weights, batch, study.loss,
                                 1.0 / static_cast<double>(batch.scored()));
  std::size_t at = 0;
  for (const auto part : all_parts)
    for (Index layer = 0; layer < 2; ++layer)
      for (const char* name : {"W_V", "W_Q", "W_K"})
        for (const auto& block : parameter_blocks(study.shape))
          if (block.name == name && block.layer == layer) {
            const Matrix h = products.block(part, block.begin, block.size());
            // Rademacher probes: var |H v|^2 = 2 (|M|_F^2 - sum M_ii^2), M = H^2.
            const Matrix m = h * h;
            const double deviation =
                std::sqrt(2 * std::max(0.0, m.squaredNorm() - m.diagonal().squaredNorm()) / study.probes);
            EXPECT_NEAR(norms[at] * norms[at], h.squaredNorm(), 4 * deviation + 1e-14 * h.squaredNorm());
            ++at;
          }
  EXPECT_EQ(at, norms.size());
}

}  // namespace
}  // namespace fluxformer::hessian
