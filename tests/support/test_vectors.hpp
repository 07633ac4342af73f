#pragma once

// Small linear algebra of the tests: reproducible random vectors, products, distances.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace fluxformer::test {

inline std::vector<double> random_vector(std::size_t count, unsigned seed, double deviation = 1,
                                         double mean = 0) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> x(count);
  for (double& value : x) value = normal(bits);
  return x;
}

inline double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

inline double norm(const std::vector<double>& x) {
  return std::sqrt(dot(x, x));
}

/// x + factor * y
inline std::vector<double> plus(std::vector<double> x, double factor, const std::vector<double>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
  return x;
}

/// max |x - y| / max |y|; infinite if a difference is not a number.
inline double relative_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double here = std::abs(x[i] - y[i]);
    difference = std::isnan(here) ? INFINITY : std::max(difference, here);
    size = std::max(size, std::abs(y[i]));
  }
  return size > 0 ? difference / size : difference;
}

template <class T>
std::vector<T> rounded_to(const std::vector<double>& x) {
  return std::vector<T>(x.begin(), x.end());
}

}  // namespace fluxformer::test
