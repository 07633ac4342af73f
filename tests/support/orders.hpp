#pragma once

// Observed orders of convergence.

#include <cmath>
#include <string>
#include <vector>

namespace fluxformer::test {

/// log2 of the ratio of the last two errors of a sequence of halved spacings: the finest pair.
inline double observed_order(const std::vector<double>& errors) {
  return std::log2(errors[errors.size() - 2] / errors.back());
}

inline std::string listed(const std::vector<double>& errors) {
  std::string text = "errors";
  for (const double error : errors) text += ' ' + std::to_string(error * 1e6) + "e-6";
  return text;
}

/// Root mean square of x - y.
inline double rms_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

}  // namespace fluxformer::test
