#pragma once

// Least squares of ln norm against ln sigma.

#include <cmath>

namespace fluxformer::test {

/// The slope over 5 values of sigma, evenly spaced in ln sigma.
template <class Norm>
double fitted_slope(const Norm& norm, double low, double high) {
  constexpr int points = 5;
  double xx = 0, xy = 0;
  for (int i = 0; i < points; ++i) {
    const double centred = i - 0.5 * (points - 1);
    const double x = centred * std::log(high / low) / (points - 1);
    xx += x * x;
    xy += x * std::log(norm(std::sqrt(low * high) * std::exp(x)));
  }
  return xy / xx;
}

}  // namespace fluxformer::test
