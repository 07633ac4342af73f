#pragma once

// Random matrices for the tests of tokens.

#include "analysis/identifiability/sample_head.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::identifiability {

/// Independent standard normal entries.
inline Matrix normal_matrix(int rows, int columns, unsigned seed) {
  const auto values = fluxformer::test::random_vector(
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), seed);
  return Eigen::Map<const Matrix>(values.data(), rows, columns);
}

/// Positive rows that sum to 1; `spread` 0 makes them uniform.
inline Matrix random_attention(int tokens, unsigned seed, double spread = 1) {
  Matrix a = (spread * normal_matrix(tokens, tokens, seed)).array().exp();
  for (int i = 0; i < tokens; ++i) a.row(i) /= a.row(i).sum();
  return a;
}

}  // namespace fluxformer::identifiability
