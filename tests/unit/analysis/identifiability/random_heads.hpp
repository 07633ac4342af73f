#pragma once

// Heads of random numbers, and slow references that use none of the code under test.

#include <Eigen/Core>
#include <cmath>
#include <cstdint>

#include "analysis/identifiability/sample_head.hpp"
#include "base/random.hpp"
#include "tests/support/test_matrices.hpp"

namespace fluxformer::identifiability::test {

using Eigen::Index;

/// Standard normal numbers.
inline Matrix random_matrix(Index rows, Index columns, std::uint64_t seed) {
  const RandomStream stream(seed, "heads of a test");
  Matrix a(rows, columns);
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = stream.normal(static_cast<std::uint64_t>(i));
  return a;
}

/// softmax(queries keys^T / sqrt(d_k)), with a causal mask or without.
inline Matrix softmax_of(const Matrix& queries, const Matrix& keys, bool causal) {
  Matrix a = queries * keys.transpose() / std::sqrt(static_cast<double>(keys.cols()));
  for (Index i = 0; i < a.rows(); ++i) {
    const Index seen = causal ? i + 1 : a.cols();
    a.row(i).tail(a.cols() - seen).setZero();
    auto row = a.row(i).head(seen);
    row = (row.array() - row.maxCoeff()).exp();
    row /= row.sum();
  }
  return a;
}

/// n tokens; values of width d_v, queries and keys of width d_k, H square and random.
inline SampleHead random_head(Index n, Index d_v, Index d_k, std::uint64_t seed, bool causal = false) {
  SampleHead head;
  head.queries = random_matrix(n, d_k, 10 * seed);
  head.keys = random_matrix(n, d_k, 10 * seed + 1);
  head.values = random_matrix(n, d_v, 10 * seed + 2);
  head.output = random_matrix(d_v, d_v + 2, 10 * seed + 3);
  head.weights = softmax_of(head.queries, head.keys, causal);
  head.causal = causal;
  return head;
}

/// T = V H
inline Matrix transformed(const SampleHead& head) {
  return head.values * head.output;
}

/// Rank by two-sided Jacobi, with a threshold far from both the values and round-off of random matrices.
inline int reference_rank(const Eigen::MatrixXd& a) {
  if (a.size() == 0) return 0;
  const auto values = fluxformer::test::singular_values(a);
  return static_cast<int>((values.array() > 1e-9 * values[0]).count());
}

}  // namespace fluxformer::identifiability::test
