#pragma once

// Scalar measures of the hidden state by depth cell (docs/model.md section 6), and the times at which a front
// arrives.

#include <petscvec.h>

#include <limits>
#include <utility>
#include <vector>

#include "analysis/states/slab_sums.hpp"
#include "base/index.hpp"
#include "mesh/mesh.hpp"
#include "operators/slab.hpp"

namespace fluxformer::states {

/// First times after which the distance |u - u*| / |u*| of each row (DepthResult::distance) from the steady
/// state stays at or below the threshold; NaN: not arrived. Not collective: the same on all ranks.
class ArrivalTimes {
 public:
  /// `rows` is the number of depth cells, `threshold` a bound of the relative distance.
  ArrivalTimes(Index rows, double threshold)
      : threshold_(threshold), since_(rows, std::numeric_limits<double>::quiet_NaN()) {}
  /// Adds the distances at a later time, [row].
  void update(double time, const std::vector<double>& distance);
  const std::vector<double>& times() const { return since_; }
  /// Continues from the result of `times`.
  void restore(std::vector<double> times) { since_ = std::move(times); }

 private:
  double threshold_;
  std::vector<double> since_;
};

/// Measures of a state, one number for each depth cell 1 .. M, the same on all ranks. Means and sums are over
/// real tokens, samples and channels.
struct DepthResult {
  std::vector<double> norm;              ///< root mean square of u
  std::vector<double> rate;              ///< root mean square of (u - previous) / dt
  std::vector<double> distance;          ///< |u - u*| / |u*| (Frobenius); empty without u*
  std::vector<double> token_variance;    ///< mean square distance to the token mean, per number
  std::vector<double> dirichlet_energy;  ///< half the mean over tokens of the squared differences to the next
                                         ///< tokens east and south, per channel
  std::vector<double> flux;  ///< c <u> - epsilon d<u>/ds, <u> the mean over tokens, samples, channels
};

/// Coefficients of the equation that the flux needs.
struct DepthFlux {
  double speed = 1, epsilon = 0, spacing = 1;
};

/// Measures one state after another, keeping u* and the work space between them.
class DepthMeasurement {
 public:
  /// `mesh` and `context` are borrowed.
  DepthMeasurement(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux);

  /// Sets the reference u* for `distance`: the cells of this rank, [cell][token][sample][channel], in single
  /// precision (the threshold of a front is 5 %).
  void set_reference(std::vector<float> reference) { reference_ = std::move(reference); }
  bool has_reference() const { return !reference_.empty(); }

  /// Measures the state u; `previous` is the state a time dt before. Collective over the mesh.
  DepthResult measure(Vec u, Vec previous, double dt);

 private:
  const Mesh& mesh_;
  const SlabContext& context_;
  DepthFlux flux_;
  SlabSums sums_;
  std::vector<float> reference_;
};

}  // namespace fluxformer::states
