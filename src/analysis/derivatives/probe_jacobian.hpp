#pragma once

// The derivative of a model's march between two depths at the states of one batch, as products with vectors.
// Over the cells of one layer it is the Jacobian of that layer, on any number of cells.

#include <vector>

#include "analysis/derivatives/sample_vectors.hpp"
#include "analysis/model_probe.hpp"

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

}  // namespace fluxformer::derivatives
