#pragma once

// What the layer map keeps of one depth cell and one batch for Hessian products: u and w of every evaluation
// of the terms, what the terms keep, and the tangents along the last direction.

#include <cstddef>
#include <vector>

#include "operators/second_order.hpp"

namespace fluxformer {

/// One evaluation base + scale * (sum of terms)(input) within a sub-layer: one under forward Euler, two under
/// the midpoint rule.
struct Stage {
  double scale = 0;
  std::vector<double> input;         ///< u
  std::vector<double> seed;          ///< w
  std::vector<double> input_dot;     ///< along the direction
  std::vector<Linearisation> parts;  ///< one per term
};

/// One line of the layer map in docs/model.md section 2.
struct SubLayerTape {
  std::vector<Stage> stages;
  std::vector<double> sum, sum_dot;  ///< before the normalisation, if there is one
  std::vector<double> result_bar;    ///< the adjoint of what it gives
};

/// The sub-layers of one cell, in their order. Filled by LinearisedMap.
struct CellTape {
  std::vector<SubLayerTape> sub_layers;
  /// Memory held, in bytes.
  std::size_t bytes() const;
};

}  // namespace fluxformer
