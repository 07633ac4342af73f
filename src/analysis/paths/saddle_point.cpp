#include "analysis/paths/saddle_point.hpp"

#include <cmath>
#include <sstream>

#include "base/error.hpp"

namespace fluxformer::paths {

SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request) {
  return saddle_point(action, request, coordinates_of(gaussian_process_point(action.network())));
}

SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request,
                         const std::vector<double>& start) {
  auto scaled = request;
  scaled.scale = action.network().largest_width();
  const auto least = saddle::minimise_together(
      action.comm(),
      [&](const std::vector<double>& x, std::vector<double>& gradient) { return action.value(x, gradient); },
      start, scaled);
  if (!least.converged) {
    std::ostringstream text;
    text << "the action of attention paths (widths up to " << scaled.scale << ", T = " << action.temperature()
         << ')';
    if (std::isfinite(least.value))
      text << " has no minimum that was found in " << least.iterations << " iterations: its gradient is "
           << least.gradient << " times the width";
    else
      text << " is not a number: the kernel is not positive definite";
    throw NumericalFailure(text.str());
  }
  auto order = order_at(action.network(), least.x);
  const double energy = action.energy(order);
  return {.order = std::move(order),
          .action = least.value,
          .energy = energy,
          .gradient = least.gradient,
          .iterations = least.iterations,
          .evaluations = least.evaluations};
}

}  // namespace fluxformer::paths
