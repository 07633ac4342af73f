#pragma once

// Derivatives of smooth functions by differences, as accurate as round-off allows.

#include <array>
#include <cstddef>
#include <vector>

namespace fluxformer::test {

/// d/de of f(e), a vector, at e = 0: central differences with h, h/2, h/4, extrapolated to sixth order.
/// Errors: h^6 / 64 of a seventh derivative over 7!, and some 8 eps / h of f.
template <class Function>
std::vector<double> derivative(Function&& f, double h) {
  std::array<std::vector<double>, 3> table;
  for (auto& slope : table) {
    slope = f(h);
    const std::vector<double> below = f(-h);
    for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = (slope[i] - below[i]) / (2 * h);
    h /= 2;
  }
  const auto extrapolate = [&](std::size_t level, double factor) {
    for (std::size_t i = 0; i < table[0].size(); ++i)
      table[level][i] = (factor * table[level + 1][i] - table[level][i]) / (factor - 1);
  };
  extrapolate(0, 4), extrapolate(1, 4), extrapolate(0, 16);
  return table[0];
}

}  // namespace fluxformer::test
