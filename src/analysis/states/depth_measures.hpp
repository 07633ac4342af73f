#pragma once

// When a front arrives at each depth: after that the state stays close to the steady one.

#include <petscvec.h>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/states/slab_sums.hpp"
#include "mesh/mesh.hpp"
#include "operators/slab.hpp"

namespace fluxformer::states {

/// First times after which the distance |u - u*| / |u*| of each row (DepthResult::distance) stays at or
/// below the threshold; NaN: not arrived. Not collective: the same on all ranks.
class ArrivalTimes {
 public:
  /// `rows`: depth cells; `threshold`: of the relative distance.
  ArrivalTimes(std::size_t rows, double threshold)
      : threshold_(threshold), since_(rows, std::numeric_limits<double>::quiet_NaN()) {}
  /// Adds the distances at a later time.
  void update(double time, const std::vector<double>& distance);
  const std::vector<double>& times() const { return since_; }
  /// Continues from the result of `times`.
  void restore(std::vector<double> times) { since_ = std::move(times); }

 private:
  double threshold_;
  std::vector<double> since_;
};

// Scalar measures of the hidden state per depth cell (docs/model.md section 6).

/// One number per depth cell 1..M, the same on all ranks. Means and sums are over real tokens, samples and
/// channels.
struct DepthResult {
  std::vector<double> norm;              ///< root mean square of u
  std::vector<double> rate;              ///< root mean square of (u - previous) / dt
  std::vector<double> distance;          ///< |u - u*| / |u*| (Frobenius); empty without u*
  std::vector<double> token_variance;    ///< mean square distance to the token mean, per number
  std::vector<double> dirichlet_energy;  ///< half the mean over tokens of the squared differences to the next
                                         ///< tokens east and south, per channel
  std::vector<double> flux;  ///< c <u> - epsilon d<u>/ds, <u> the mean over tokens, samples, channels
};

/// The coefficients of the equation that flux needs.
struct DepthFlux {
  double speed = 1, epsilon = 0, spacing = 1;
};

/// Measures one state after another, keeping u* and the work space between them.
class DepthMeter {
 public:
  /// Both are borrowed.
  DepthMeter(const Mesh& mesh, const SlabContext& context, const DepthFlux& flux);

  /// The reference u* for `distance`: this rank's cells, [cell][token][sample][channel], in single precision
  /// (the threshold of a front is 5 %).
  void set_reference(std::vector<float> reference) { reference_ = std::move(reference); }
  bool has_reference() const { return !reference_.empty(); }

  /// Collective over the mesh. dt: time between the two states.
  DepthResult measure(Vec u, Vec previous, double dt);

 private:
  const Mesh& mesh_;
  const SlabContext& context_;
  DepthFlux flux_;
  SlabSums sums_;
  std::vector<float> reference_;
};

}  // namespace fluxformer::states
