#include "analysis/depth/depth_limit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/statistics.hpp"

namespace fluxformer {

DepthLimit depth_limit(std::span<const double> values, int order) {
  if (values.empty()) throw std::invalid_argument("depth_limit: no values");
  const std::size_t count = values.size();
  const double first = values.front(), last = values.back();
  const double step = count > 1 ? last - values[count - 2] : 0;
  const double ratio = count > 2 && step != 0 ? (values[count - 2] - values[count - 3]) / step : 0;
  DepthLimit limit{.order = ratio > 0 ? std::log2(ratio) : missing_value, .value = last};
  constexpr double quarter = 0.25, most_steps = 10;
  limit.asymptotic = std::abs(limit.order - order) <= quarter;  // false for NaN
  if (limit.asymptotic) limit.value = last + step / (std::exp2(order) - 1);
  limit.seen = std::abs(first - limit.value);
  for (const double value : values)
    limit.seen = std::isfinite(value) ? std::max(limit.seen, std::abs(first - value))
                                      : std::numeric_limits<double>::infinity();
  limit.distance = limit.seen;
  if (!limit.asymptotic)
    limit.distance += std::abs(step) * (ratio > 1 ? std::min(most_steps, 1 / (ratio - 1)) : most_steps);
  return limit;
}

}  // namespace fluxformer
