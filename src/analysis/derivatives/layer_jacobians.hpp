#pragma once

// Jacobians of the layers of a model at the states of some samples: their singular values and Lyapunov
// exponents.

#include <cstdint>
#include <vector>

#include "analysis/derivatives/jacobian_spectra.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::derivatives {

/// Derivative of a model's march between two depths at the states of one batch, as products with vectors.
/// Over the cells of one layer it is the Jacobian of that layer, on any number of cells.
class ProbeJacobian {
 public:
  /// `probe` is borrowed. The maps hold for its last batch.
  explicit ProbeJacobian(ModelProbe& probe);

  /// Stores the state of a row; to be called by the RowVisitor of ModelProbe::forward. Memory: a slab for
  /// each row.
  void keep(int row, const double* u);

  /// Map v -> (d u_to / d u_from) v from row `from` to row `to`, at the cost of a tangent for each cell. It
  /// borrows this object.
  SlabMap derivative(int from, int to);
  /// Map w -> (d u_to / d u_from)^T w from row `to` to row `from`. It borrows this object.
  SlabMap transposed(int from, int to);

 private:
  ModelProbe& probe_;
  std::vector<std::vector<double>> states_;
  std::vector<double> next_;
};

/// Effort and initial directions of the computation.
struct JacobianPlan {
  int steps = 1;         ///< steps of the Lanczos process for singular values
  int exponents = 1;     ///< number of Lyapunov exponents
  int sweeps = 0;        ///< largest number of sweeps of the directions, back and forth (SweepPlan)
  double tolerance = 0;  ///< change of the exponents (1/layer) below which no more sweeps are made
  Precision precision = Precision::float64;
  std::uint64_t seed = 0;  ///< seed of the initial directions
};

/// Singular values of the maps over whole layers, so that models on different depth cells can be compared,
/// and Lyapunov exponents over all layers.
struct LayerJacobians {
  std::vector<double> largest, smallest;  ///< [layer]: extreme singular values, means over samples
  std::vector<double> largest_error,
      smallest_error;                  ///< [layer]: largest error of any sample (SingularRange)
  std::vector<double> lyapunov;        ///< exponents per layer, means over samples
  std::vector<double> lyapunov_error;  ///< largest change in the last sweep of any sample; NaN without sweeps
  double lyapunov_sweeps = 0;          ///< largest number of sweeps of any sample
};

/// Spectra of the layers, the same on all ranks and up to round-off independent of their number. Collective.
/// Cost in forward passes of the samples: about 5 steps + exponents (2 + 5 sweeps), with the sweeps that the
/// slowest sample of a batch needs. Memory in states of a batch: 2 steps + 2 exponents + one for each depth.
/// Throws BadInput unless cells of the model end where its layers do.
LayerJacobians layer_jacobians(const SampleSet& samples, const Parameters& parameters,
                               const JacobianPlan& plan);

}  // namespace fluxformer::derivatives
