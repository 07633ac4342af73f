#pragma once

// The derivative of a model's march between two depths at the states of one batch, as products with vectors.
// Over the cells of one layer it is the Jacobian of that layer, on any number of cells.

#include <cstdint>
#include <vector>

#include "analysis/derivatives/jacobian_spectra.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::derivatives {

/// Keeps the states that a forward march shows and makes linear maps of them.
class ProbeJacobian {
 public:
  /// `probe` is borrowed: the maps hold for its last batch.
  explicit ProbeJacobian(ModelProbe& probe);

  /// Stores the state of a row; to be called by the RowVisitor of ModelProbe::forward. Memory: a slab per
  /// row.
  void keep(int row, const double* u);

  /// v at row `from` -> (d u_to / d u_from) v, at the cost of a tangent per cell. Both maps borrow this
  /// object.
  SlabMap derivative(int from, int to);
  /// w at row `to` -> (d u_to / d u_from)^T w.
  SlabMap transposed(int from, int to);

 private:
  ModelProbe& probe_;
  std::vector<std::vector<double>> states_;
  std::vector<double> next_;
};

// Singular values and Lyapunov exponents of a model's layers at the states of some samples.

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
