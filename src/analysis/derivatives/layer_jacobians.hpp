#pragma once

// Singular values and Lyapunov exponents of a model's layers at the states of some samples.

#include <cstdint>
#include <vector>

#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::derivatives {

/// How much is computed, and from which directions.
struct JacobianPlan {
  int steps = 1;      ///< of the Lanczos process for singular values
  int exponents = 1;  ///< Lyapunov exponents
  /// Most sweeps of their directions, back and forth, and the change of exponents (1/layer) below which no
  /// more are made (SweepPlan).
  int sweeps = 0;
  double tolerance = 0;
  Precision precision = Precision::float64;
  std::uint64_t seed = 0;  ///< of the initial directions
};

/// Of the map over a whole layer, so that models on different depth cells can be compared, and of all layers.
struct LayerJacobians {
  std::vector<double> largest, smallest;              ///< singular value by layer, mean over samples
  std::vector<double> largest_error, smallest_error;  ///< the largest of any sample (SingularRange)
  std::vector<double> lyapunov;                       ///< exponents per layer, mean over samples
  std::vector<double> lyapunov_error;  ///< largest change of any sample in its last sweep; NaN without sweeps
  double lyapunov_sweeps = 0;          ///< the largest number of any sample
};

/// The same on all ranks; up to round-off independent of their number. Collective. Cost, in forward passes of
/// the samples: about 5 steps + exponents (2 + 5 sweeps), with the sweeps that the slowest sample of a batch needs. Memory: 2 steps states of a batch, 2 exponents, and
/// one for each depth. Throws BadInput unless cells of the model end where its layers do.
LayerJacobians layer_jacobians(const SampleSet& samples, const Parameters& parameters,
                               const JacobianPlan& plan);

}  // namespace fluxformer::derivatives
