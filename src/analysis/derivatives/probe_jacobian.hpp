#pragma once

// The derivative of a model's march between two of its depths at the states of one batch, as products with
// vectors. Over the cells of one layer it is the Jacobian of that layer, whatever the cells of a model.

#include <vector>

#include "analysis/derivatives/sample_vectors.hpp"
#include "analysis/model_probe.hpp"

namespace fluxformer::derivatives {

class ProbeJacobian {
 public:
  /// `probe` is borrowed: the maps hold for its last batch.
  explicit ProbeJacobian(ModelProbe& probe);

  /// Remembers the state of a row: the RowVisitor of ModelProbe::forward. Memory: one slab each.
  void keep(int row, const double* u);

  /// v at row `from` -> (d u_to / d u_from) v, one tangent per cell in between. Both borrow this object.
  SlabMap derivative(int from, int to);
  /// w at row `to` -> (d u_to / d u_from)^T w.
  SlabMap transposed(int from, int to);

 private:
  ModelProbe& probe_;
  std::vector<std::vector<double>> states_;
  std::vector<double> next_;
};

}  // namespace fluxformer::derivatives
