#pragma once

// Compares the closed form, summed over sequences, with derivatives found numerically: block by block, and
// each of the matrix-free products with the dense matrix.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/hyper_dual.hpp"
#include "tests/support/reached.hpp"
#include "tests/unit/analysis/decoder/layer_case.hpp"

namespace fluxformer::test {

/// |a - b| relative to |b|; relative to `scale` where b is zero up to round-off of terms of that size.
inline double difference(const Matrix& a, const Matrix& b, double scale) {
  return (a - b).norm() / std::max(b.norm(), 1e-4 * scale);
}

inline Matrix summed_hessian(const std::vector<AttentionLayer>& layers, HessianTerm part) {
  Matrix sum = layers[0].hessian(part);
  for (std::size_t n = 1; n < layers.size(); ++n) sum += layers[n].hessian(part);
  return sum;
}

/// Loss, gradient, and every block of H_o and H_f to 1e-9 (5e-13 is reached: the round-off of a sum over
/// rows); products with three directions to 1e-12.
inline void compare_blocks(const std::vector<AttentionLayer>& layers, const NumericDerivatives& numeric) {
  const AttentionMap& map = layers[0].map();
  double loss = 0;
  Vector gradient = Vector::Zero(map.size());
  for (const auto& layer : layers) {
    loss += layer.loss();
    gradient += layer.gradient();
  }
  EXPECT_NEAR(loss, numeric.loss, 1e-13 * std::abs(numeric.loss));
  EXPECT_LT((gradient - numeric.gradient).norm(), 1e-12 * numeric.gradient.norm());
  const Matrix rest = numeric.hessian - numeric.outer, outer = numeric.outer;
  for (const HessianTerm part : {HessianTerm::outer, HessianTerm::functional}) {
    const Matrix h = summed_hessian(layers, part);
    const Matrix& expected = part == HessianTerm::outer ? outer : rest;
    for (const Weight a : all_weights) {
      for (const Weight b : all_weights) {
        const double error = reached(
            "closed form against hyper-dual numbers",
            difference(block(h, map, a, b), block(expected, map, a, b), block(outer, map, a, b).norm()));
        EXPECT_LT(error, 1e-9) << (part == HessianTerm::outer ? "H_o " : "H_f ") << name_of(a) << name_of(b);
      }
    }
  }
  for (const HessianTerm part : {HessianTerm::total, HessianTerm::outer, HessianTerm::functional}) {
    const Matrix h = summed_hessian(layers, part);
    for (int probe = 0; probe < 3; ++probe) {
      const Vector direction = fill(40 + probe, map.size(), 1);
      Vector product = Vector::Zero(map.size());
      for (const auto& layer : layers) product += layer.product(part, direction);
      const Vector expected = h * direction;
      EXPECT_LT(reached("products against the closed form", (product - expected).norm() / expected.norm()),
                1e-12);
    }
  }
}

}  // namespace fluxformer::test
