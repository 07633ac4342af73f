#include "analysis/depth/rounded.hpp"

#include <algorithm>
#include <cmath>

namespace fluxformer::depth {

std::vector<double> rounded(std::vector<double> numbers) {
  double largest = 0;
  for (const double x : numbers) largest = std::max(largest, std::abs(x));
  if (largest == 0) return numbers;
  const double unit = std::pow(10, std::ceil(std::log10(largest)) - 10);
  for (double& x : numbers) x = std::round(x / unit) * unit;
  return numbers;
}

}  // namespace fluxformer::depth
