// The linear MLP against hyper-dual numbers.

#include "analysis/decoder/layer_measures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "analysis/decoder/decoder.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

TEST(LinearMlp, equals_hyper_dual_numbers_block_by_block) {
  const std::vector<Matrix> weights{0.7 * fill(20, 4, 3), 0.8 * fill(21, 3, 5), 0.9 * fill(22, 5, 2),
                                    0.8 * fill(23, 2, 3)};
  const Matrix x = fill(110, 6, 4), y = fill(210, 6, 3);
  const LinearMlp mlp(x, y, 0.3, weights);
  Vector theta(0);
  std::vector<Index> begin{0};
  for (const Matrix& w : weights) {
    theta.conservativeResize(theta.size() + w.size());
    theta.tail(w.size()) = Eigen::Map<const Vector>(w.data(), w.size());
    begin.push_back(theta.size());
  }
  const auto outputs = [&](const auto& at) {
    using T = typename std::decay_t<decltype(at)>::value_type;
    Table<T> f(x);
    std::size_t position = 0;
    for (const Matrix& w : weights) {
      f = times(f,
                take(at, position, static_cast<std::size_t>(w.rows()), static_cast<std::size_t>(w.cols())));
    }
    return f.entries;
  };
  const auto numeric = numeric_derivatives(
      outputs, [&](const auto& f) { return squared_error_of(f, y, 0.3); }, theta);
  EXPECT_NEAR(mlp.loss(), numeric.loss, 1e-13 * numeric.loss);
  const Matrix outer = mlp.hessian(HessianTerm::outer), functional = mlp.hessian(HessianTerm::functional);
  for (std::size_t l = 0; l < weights.size(); ++l) {
    for (std::size_t m = 0; m < weights.size(); ++m) {
      const auto of = [&](const Matrix& h) -> Matrix {
        return h.block(begin[l], begin[m], weights[l].size(), weights[m].size());
      };
      EXPECT_LT(difference(of(outer), of(numeric.outer), 0), 1e-12) << l << m;
      if (l == m) {
        EXPECT_EQ(of(functional).norm(), 0);
        EXPECT_NEAR(mlp.diagonal_norm(l), of(outer).norm(), 1e-13 * of(outer).norm());
      } else {
        EXPECT_LT(difference(of(functional), of(numeric.hessian - numeric.outer), of(outer).norm()), 1e-11)
            << l << m;
      }
    }
  }
  EXPECT_LT((mlp.hessian(HessianTerm::total) - outer - functional).norm(), 1e-14 * outer.norm());
}

}  // namespace
}  // namespace fluxformer::decoder

namespace fluxformer::decoder {
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

TEST(EntrySizes, are_no_numbers_where_an_entry_is_none) {
  Matrix matrix = Matrix::Constant(3, 3, 0.1);
  matrix(1, 1) = std::numeric_limits<double>::quiet_NaN();
  const auto sizes = entry_sizes(matrix, {-3, 0, 3});
  ASSERT_EQ(sizes.shares.size(), 2U);
  EXPECT_TRUE(std::isnan(sizes.median) && std::isnan(sizes.largest_percent) && std::isnan(sizes.shares[0]));
}

LayerStudy layer_measures_small(Index depth) {
  LayerStudy study;
  study.shape = {.width = 4, .hidden = 6, .depth = depth};
  study.sequences = 3;
  study.probes = 400;
  return study;
}

TEST(BlockNorms, of_one_layer_are_those_of_its_blocks) {
  const auto study = layer_measures_small(1);
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
  const auto study = layer_measures_small(2);
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

TEST(BlockNorms, that_overflow_are_not_finite_and_others_are_told_though_their_squares_overflow) {
  auto study = layer_measures_small(1);
  study.shape.scores = Scores::linear;
  study.shape.residual = 0;
  study.shape.hidden = 0;
  study.loss = LogitLoss::squared_error;
  for (const Index depth : {1, 2}) {
    study.shape.depth = depth;
    const auto norms = block_norms(study, 1e80);
    const auto layers = static_cast<std::size_t>(depth);  // H and H_o; the functional part of one layer is 0
    for (std::size_t j = 0; j < 6 * layers; ++j) EXPECT_FALSE(std::isfinite(norms[j])) << j;
  }
  study.shape.depth = 1;
  const auto one = block_norms(study, 1), far = block_norms(study, 1e40);  // sigma^6
  for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(far[j] / one[j], 1e240, 1e229);
}

TEST(LinearMlpNorms, are_those_of_the_embeddings_of_the_scored_tokens) {
  auto study = layer_measures_small(1);
  study.shape.residual = 0.3;  // which do not count
  study.loss = LogitLoss::cross_entropy;
  auto weights = initial_decoder(study.shape, study.seed);
  scale_embeddings(weights, study.seed, 0.3);
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  Matrix gram = Matrix::Zero(4, 4);
  for (const Index i : batch.scored_rows()) {
    const Vector x = weights.embedding.row(batch.tokens[i]);
    gram += x * x.transpose();
  }
  // H = 2 X^T X (x) I_12, all of it Gauss-Newton.
  const double expected = 2 * gram.norm() * std::sqrt(12.0);
  const auto norms = linear_mlp_norms(study, 0.3);
  ASSERT_EQ(norms.size(), 3U);
  EXPECT_NEAR(norms[0], expected, 1e-13 * expected);
  EXPECT_EQ(norms[1], norms[0]);
  EXPECT_EQ(norms[2], 0);
}

TEST(LinearMlpNorms, have_weights_of_the_stated_variance_and_grow_with_the_square_of_the_embeddings) {
  auto study = layer_measures_small(1);
  study.shape.width = 96;
  study.sequences = 16;
  const double one = linear_mlp_norms(study, 0.3)[0];
  study.shape.depth = 2;
  const auto norms = linear_mlp_norms(study, 0.3), twice = linear_mlp_norms(study, 0.6);
  for (std::size_t layer = 0; layer < 2; ++layer)
    EXPECT_NEAR(twice[layer], 4 * norms[layer], 1e-13 * norms[layer]);
  // |W W^T| of d x 12 entries of variance 1 / (3 d) is near |I_12| / 3; fluctuations are of order sqrt(12 /
  // d).
  EXPECT_NEAR(norms[0] / one, 1.0 / 3, 0.4 / 3);
}

TEST(EntryLogarithms, are_those_of_the_whole_hessian_row_by_row) {
  auto study = layer_measures_small(1);
  study.shape.norm_epsilon = 1e-5;
  study.shape.norm_place = NormPlace::behind;
  const auto weights = initial_decoder(study.shape, study.seed);
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  const DecoderProducts products(study.shape, weights, batch, study.loss,
                                 1.0 / static_cast<double>(batch.scored()));
  const Matrix h = products.block(HessianTerm::total, 0, products.size());
  const auto rows = entry_logarithms(study, 3, 60);
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(57 * products.size()));
  for (Index i = 3; i < 60; ++i)
    for (Index j = 0; j < products.size(); ++j)
      // H(i, j) and H(j, i) differ by round-off, of which numbers of 4 bytes see little beside 1e-6.
      EXPECT_NEAR(rows[(i - 3) * products.size() + j], std::log10(std::abs(h(j, i)) + 1e-6), 2e-6);
}

}  // namespace
}  // namespace fluxformer::decoder
