#pragma once

// The Hessian of a loss as a function of the weights of one attention layer, H = H_o + H_f:
//
//   H_o = sum_i J_i^T B^o_i J_i                          outer-product part, Gauss-Newton: positive semi-definite
//   H_f = sum_i J_i^T B^f_i J_i + g_i . d2 f_i           functional part
//
// over the scored rows i of one sequence, with J and d2 f of attention_map.hpp and g, B of row_tail.hpp.
// A loss over several sequences is a sum of losses: its gradient, Hessian and products are sums, too.

#include <vector>

#include "analysis/decoder/attention_map.hpp"
#include "analysis/decoder/row_tail.hpp"

namespace fluxformer::decoder {

/// H, H_o or H_f.
enum class Part { total, outer, functional };

/// 0 .. tokens-1, where every row counts.
std::vector<Index> every_row(Index tokens);

/// One sequence, at one theta. Not collective.
class AttentionLayer {
 public:
  /// Evaluates the tail at the scored rows of `map`'s values.
  AttentionLayer(AttentionMap map, const Tail& tail, std::vector<Index> scored);

  const AttentionMap& map() const { return map_; }
  const std::vector<Index>& scored() const { return scored_; }
  const std::vector<RowLoss>& losses() const { return losses_; }  ///< of the scored rows
  Index size() const { return map_.size(); }

  /// The sum of the tail over the scored rows.
  double loss() const;
  /// dl/dtheta, length p.
  Vector gradient() const { return map_.adjoint(gradients()); }
  /// p x p. O(n r p^2) for n scored rows with r rows in each factor.
  Matrix hessian(Part part) const;
  /// The part times a direction, O(L^2 d + L d (k + e)) and the tail's n r e; nothing of size p^2.
  Vector product(Part part, const Vector& direction) const;

 private:
  Matrix gradients() const;

  AttentionMap map_;
  std::vector<Index> scored_;
  std::vector<RowLoss> losses_;
};

/// The block of a p x p matrix that belongs to two of the layer's weights.
Matrix block(const Matrix& hessian, const AttentionMap& map, Weight rows, Weight columns);

}  // namespace fluxformer::decoder
