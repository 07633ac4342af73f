// Growth of the blocks of whole decoders with the size of their embeddings.

#include <gtest/gtest.h>

#include "analysis/decoder/decoder.hpp"
#include "tests/unit/analysis/decoder/slopes.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

const TokenBatch batch = addition_batch(1234, 0, 0, 2);

double norm_of(const DecoderShape& shape, const std::string& name, Index layer, HessianTerm part,
               LogitLoss loss, double sigma) {
  DecoderWeights weights = initial_decoder(shape, 1234);
  scale_embeddings(weights, 1234, sigma);
  const DecoderProducts products(shape, weights, batch, loss, 1.0 / 12);
  for (const ParameterBlock& block : parameter_blocks(shape)) {
    if (block.name == name && block.layer == layer)
      return products.block(part, block.begin, block.size()).norm();
  }
  throw std::logic_error("no block " + name);
}

struct Expected {
  const char* name;
  Index layer;
  HessianTerm part;
  double power;
};

void expect_powers(const DecoderShape& shape, LogitLoss loss, const std::vector<Expected>& all, double low,
                   double high) {
  for (const Expected& one : all) {
    const auto norm = [&](double sigma) {
      return norm_of(shape, one.name, one.layer, one.part, loss, sigma);
    };
    EXPECT_NEAR(fitted_slope(norm, low, high), one.power, 0.05)
        << one.name << one.layer << " of " << shape.depth << ", part " << static_cast<int>(one.part);
  }
}

TEST(DecoderScaling, of_softmax_attention_is_the_same_in_every_layer_but_for_the_last_value) {
  for (Index depth = 1; depth <= 3; ++depth) {
    DecoderShape shape{12, 18, 4, 6, depth};
    std::vector<Expected> all;
    for (Index l = 0; l < depth; ++l) {
      all.push_back({"W_V", l, HessianTerm::outer, 2});
      all.push_back({"W_Q", l, HessianTerm::outer, 6});
      all.push_back({"W_Q", l, HessianTerm::functional, 5});
      if (l + 1 < depth) all.push_back({"W_V", l, HessianTerm::functional, 3});
    }
    expect_powers(shape, LogitLoss::cross_entropy, all, 1e-3, 1e-2);
    EXPECT_EQ(norm_of(shape, "W_V", depth - 1, HessianTerm::functional, LogitLoss::cross_entropy, 1), 0);
  }
}

TEST(DecoderScaling, of_linear_attention_triples_with_every_layer) {
  for (Index depth = 1; depth <= 3; ++depth) {
    DecoderShape shape{12, 18, 4, 6, depth, Scores::linear, Mask::causal, 0};
    std::vector<Expected> all;
    const double n = std::pow(3, static_cast<double>(depth));
    for (const char* name : {"W_V", "W_Q"}) {
      for (Index l = 0; l < depth; ++l) {
        all.push_back({name, l, HessianTerm::outer, 2 * n});
        if (l + 1 < depth) all.push_back({name, l, HessianTerm::functional, n});
      }
    }
    expect_powers(shape, LogitLoss::squared_error, all, 1e-2, 1e-1);
  }
}

// The residual, which is not normalised, dominates at large sigma: the last LayerNorm gives 1 / sigma.
TEST(DecoderScaling, of_pre_norm_is_flat_at_small_sigma_and_falls_at_large) {
  const DecoderShape shape{12, 18, 6, 8, 1, Scores::softmax, Mask::causal, 1, 1e-14};
  const auto powers = [](double v_o, double v_f, double q_o, double q_f, double q) {
    return std::vector<Expected>{{"W_V", 0, HessianTerm::outer, v_o},
                                 {"W_V", 0, HessianTerm::functional, v_f},
                                 {"W_Q", 0, HessianTerm::outer, q_o},
                                 {"W_Q", 0, HessianTerm::functional, q_f},
                                 {"W_Q", 0, HessianTerm::total, q}};
  };
  // The correction is of order sigma times the size of R over that of X, which is about ten.
  expect_powers(shape, LogitLoss::cross_entropy, powers(0, 0, 0, 0, 0), 1e-4, 1e-3);
  expect_powers(shape, LogitLoss::cross_entropy, powers(-2, -2, -2, -1, -1), 1e2, 1e3);
}

// LayerNorm behind the sums takes one power of sigma from every derivative.
TEST(DecoderScaling, of_post_norm_is_flat_in_value_and_of_fourth_power_in_query) {
  const DecoderShape shape{12, 18, 6, 8, 1, Scores::softmax, Mask::causal, 1, 1e-14, NormPlace::behind};
  const std::vector<Expected> powers{{"W_V", 0, HessianTerm::outer, 0},
                                     {"W_V", 0, HessianTerm::functional, 0},
                                     {"W_Q", 0, HessianTerm::outer, 4},
                                     {"W_Q", 0, HessianTerm::functional, 4},
                                     {"W_K", 0, HessianTerm::total, 4}};
  expect_powers(shape, LogitLoss::cross_entropy, powers, 1e-4, 1e-3);
}

}  // namespace
}  // namespace fluxformer::decoder
