#pragma once

// Projection of states to their m directions of largest variance, for estimators that do not work in hundreds
// of dimensions. The projection loses information: I(T_m; .) <= I(T; .).

#include <cstddef>
#include <vector>

#include "analysis/information/information.hpp"

namespace fluxformer::information {

/// The projected states, the axes, and how much of the variance they keep.
struct PrincipalComponents {
  std::size_t count = 0, components = 0;
  std::vector<double> projected;  ///< [sample][component]: (t - mean) . axis
  std::vector<double> axes;       ///< [component][channel], orthonormal
  std::vector<double> variance;   ///< along each axis (divisor N), in descending order
  double total_variance = 0;      ///< of all channels

  Points points() const { return {projected.data(), count, components}; }
};

/// Eigenvectors of the covariance; N d^2 + d^3 operations. The entry of largest magnitude of an axis is
/// positive, which fixes the signs. Not collective. Throws BadInput unless 1 <= m <= d, and as require_points
/// does.
PrincipalComponents principal_components(const Points& states, std::size_t m);

}  // namespace fluxformer::information
