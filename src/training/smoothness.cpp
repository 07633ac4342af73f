#include "training/smoothness.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace fluxformer {

double add_smoothness(const ModelSpec& spec, const ParameterVector& parameters, double strength,
                      std::span<double> gradient, int first_pair) {
  if (strength == 0 || spec.knots < 2 || spec.layers < 2) return 0;
  const double spacing = static_cast<double>(spec.layers - 1) / (spec.knots - 1);
  const auto& layout = parameters.layout;
  // P = (strength / 2) sum_k ds |slope_k|^2 with slope_k = (theta_{k+1} - theta_k) / ds, so that
  // dP/dtheta_{k+1} += strength slope_k and dP/dtheta_k -= strength slope_k.
  double sum = 0;
  for (int knot = std::max(first_pair, layout.first_knot()); knot < layout.last_knot(); ++knot) {
    const Index lower = layout.block_offset(knot), upper = layout.block_offset(knot + 1);
    for (Index j = 0, count = layout.block_size(); j < count; ++j) {
      const double slope = (parameters.values[upper + j] - parameters.values[lower + j]) / spacing;
      sum += spacing * slope * slope;
      gradient[upper + j] += strength * slope;
      gradient[lower + j] -= strength * slope;
    }
  }
  return strength / 2 * sum;
}

}  // namespace fluxformer
