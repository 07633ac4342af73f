#pragma once

// The order parameters at which the action is least: the theory's answer. Source: specification of attention paths,
// section 2.4.

#include "analysis/paths/path_action.hpp"
#include "solvers/saddle/minimise.hpp"

namespace fluxformer::paths {

/// The minimum of the action.
struct SaddlePoint {
  OrderParameters order = {};
  double action = 0, energy = 0;  ///< S and E
  double gradient = 0;            ///< max |dS/dx| / N in the coordinates x, N the largest width
  int iterations = 0, evaluations = 0;
};

/// From the Gaussian-process point, or from other coordinates. Throws NumericalFailure where the minimum is not found.
/// Collective over the ranks that share the examples; all of them get what the first one finds.
SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request = {});
SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request,
                         const std::vector<double>& start);

}  // namespace fluxformer::paths
