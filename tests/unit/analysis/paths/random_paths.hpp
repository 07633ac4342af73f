#pragma once

// Random attentioned inputs, order parameters and targets.

#include <Eigen/Core>
#include <cstdint>
#include <string>

#include "analysis/paths/order_parameters.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/random.hpp"
#include "tests/support/test_matrices.hpp"

namespace fluxformer::paths::test {

inline RowMatrix random_matrix(Eigen::Index rows, Eigen::Index columns, std::uint64_t seed) {
  const RandomStream stream(seed, "random matrix");
  RowMatrix a(rows, columns);
  for (Eigen::Index k = 0; k < a.size(); ++k) a.data()[k] = stream.normal(static_cast<std::uint64_t>(k));
  return a;
}

inline PathExamples random_examples(int examples, int paths, int dimension, std::uint64_t seed) {
  PathExamples all{random_matrix(examples, paths * dimension, seed), Eigen::VectorXd(examples)};
  for (int mu = 0; mu < examples; ++mu) all.targets[mu] = mu % 2 ? -1 : 1;
  return all;
}

/// A A^T/m + I/10: symmetric, positive definite.
inline Eigen::MatrixXd random_covariance(int size, std::uint64_t seed) {
  const auto a = random_matrix(size, size + 2, seed);
  return a * a.transpose() / (size + 2) + 0.1 * Eigen::MatrixXd::Identity(size, size);
}

inline OrderParameters random_order(const PathNetwork& network, std::uint64_t seed) {
  OrderParameters order;
  for (int l = 1; l <= network.layers(); ++l)
    order.u.push_back(random_covariance(network.order_size(l), seed + static_cast<std::uint64_t>(l)));
  order.readout = best_readout(network, order.u.back());
  return order;
}

/// An orthogonal matrix.
inline Eigen::MatrixXd random_rotation(int size, std::uint64_t seed) {
  return fluxformer::test::orthogonal_factor(random_matrix(size, size, seed));
}

/// Heads, widths and variances that are all different.
inline PathNetwork uneven_network() {
  return {.heads = {2, 1, 3},
          .widths = {12, 20, 7, 15},
          .input_variance = 1.3,
          .variances = {0.8, 1.7, 1.2},
          .readout_variance = 0.6};
}

}  // namespace fluxformer::paths::test
