#pragma once

// Samples with known answers for the estimators of mutual information.

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

#include "analysis/information/information.hpp"
#include "base/random.hpp"
#include "tests/support/test_matrices.hpp"

namespace fluxformer::test {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline information::Points points_of(const Rows& x) {
  return {x.data(), x.rows(), x.cols()};
}

/// Independent standard normal numbers.
inline Rows normal_rows(int count, int components, std::uint64_t seed) {
  const RandomStream stream(seed, "information test");
  Rows x(count, components);
  for (Eigen::Index i = 0; i < x.size(); ++i) x.data()[i] = stream.normal(static_cast<std::uint64_t>(i));
  return x;
}

/// Each column times its factor.
inline Rows stretched(Rows x, const std::vector<double>& factor) {
  for (Eigen::Index j = 0; j < x.cols(); ++j) x.col(j) *= factor[j];
  return x;
}

/// Uniform on 0 .. labels - 1, independent of everything else.
inline std::vector<int> random_labels(int count, int labels, std::uint64_t seed) {
  const RandomStream stream(seed, "information test labels");
  std::vector<int> y;
  for (int i = 0; i < count; ++i)
    y.push_back(
        static_cast<int>(stream.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(labels))));
  return y;
}

/// The permutation i -> 7 i + 3 mod count, for counts that 7 does not divide.
inline std::size_t place(std::size_t i, std::size_t count) {
  return (7 * i + 3) % count;
}
inline Rows permuted(const Rows& x) {
  Rows y(x.rows(), x.cols());
  for (Eigen::Index i = 0; i < x.rows(); ++i)
    y.row(static_cast<Eigen::Index>(place(static_cast<std::size_t>(i), static_cast<std::size_t>(x.rows())))) =
        x.row(i);
  return y;
}
inline std::vector<int> permuted(const std::vector<int>& x) {
  std::vector<int> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[place(i, x.size())] = x[i];
  return y;
}

inline Eigen::MatrixXd rotation(int size, std::uint64_t seed) {
  return orthogonal_factor(normal_rows(size, size, seed));
}

/// Entropy (nats) of a density on the line by Simpson's rule.
template <class Density>
double entropy_on_line(Density&& density, double low, double high) {
  constexpr int steps = 20000;
  double sum = 0;
  for (int i = 0; i <= steps; ++i) {
    const double p = density(low + (high - low) * i / steps);
    const double weight = i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2;
    if (p > 0) sum -= weight * p * std::log(p);
  }
  return sum * (high - low) / steps / 3;
}

inline double normal_density(double x, double mean, double sigma) {
  const double z = (x - mean) / sigma;
  return std::exp(-0.5 * z * z) / (sigma * std::sqrt(2 * std::numbers::pi));
}

/// Entropy of N(., sigma^2), nats.
inline double normal_entropy(double sigma) {
  return 0.5 * std::log(2 * std::numbers::pi * std::numbers::e * sigma * sigma);
}

}  // namespace fluxformer::test
