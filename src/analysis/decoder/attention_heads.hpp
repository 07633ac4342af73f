#pragma once

// The Hessian of a loss as a function of several heads with their output projections:
//
//   r_i = sum_h W_O,h^T z_h,i,   z_h = A_h X W_V,h,   loss = sum over scored rows of tail(i, r_i)
//
// The parameters of a head are [vec W_V; vec W_Q; vec W_K; vec W_O], heads one after the other. Row blocks of the
// Jacobian: W_O,h^T J_h for the first three (attention_map.hpp), z_h,i^T (x) I for W_O. Across heads the
// functional part has only the tail's J^T B^f J; within a head it adds the layer's curvature contracted with
// W_O,h g_i and, between theta and W_O, [theta, (t,s)] = J_h[t,theta] g_is.

#include <vector>

#include "analysis/decoder/attention_layer.hpp"

namespace fluxformer::decoder {

/// One head: W_O is e x d.
struct AttentionHead {
  AttentionMap map;
  Matrix output;

  Index size() const { return map.size() + output.size(); }
};

/// One sequence, at one theta; what goes in front of the MLP (residual, LayerNorm) belongs to the tail.
class AttentionHeads {
 public:
  /// Evaluates the tail at the scored rows of r. At least one head; all of them see the same tokens.
  AttentionHeads(std::vector<AttentionHead> heads, const Tail& tail, std::vector<Index> scored);

  /// Number of parameters, and where those of a head begin.
  Index size() const { return begin(heads_.size()); }
  Index begin(std::size_t head) const;
  double loss() const;
  /// Length p.
  Vector gradient() const;
  /// p x p. O(n r p^2).
  Matrix hessian(Part part) const;

 private:
  Matrix jacobian(Index row) const;

  std::vector<AttentionHead> heads_;
  std::vector<Matrix> values_;  // z_h
  std::vector<Index> scored_;
  std::vector<RowLoss> losses_;
};

}  // namespace fluxformer::decoder
