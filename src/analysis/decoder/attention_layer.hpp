#pragma once

// The Hessian of a loss as a function of the weights of one attention layer, H = H_o + H_f:
//
//   H_o = sum_i J_i^T B^o_i J_i                      outer-product part, Gauss-Newton: positive semi-definite
//   H_f = sum_i J_i^T B^f_i J_i + g_i . d2 f_i       functional part
//
// over the scored rows i of one sequence, with J and d2 f of attention_map.hpp and g, B of row_maps.hpp. A
// loss over several sequences is a sum of losses: its gradient, Hessian and products are sums, too.

#include <vector>

#include "analysis/decoder/attention_map.hpp"
#include "analysis/decoder/row_maps.hpp"
#include "base/index.hpp"

namespace fluxformer::decoder {

/// The Hessian H, its outer-product part H_o, or its functional part H_f.
enum class HessianTerm { total, outer, functional };

/// Rows 0 .. tokens - 1, if every row counts. Used by tests only.
std::vector<Index> every_row(Index tokens);

/// Loss of one sequence behind an attention layer, with its derivatives at one theta. Not collective.
class AttentionLayer {
 public:
  /// Evaluates the tail at the scored rows of `map`'s values.
  AttentionLayer(AttentionMap map, const Tail& tail, std::vector<Index> scored);

  const AttentionMap& map() const { return map_; }
  const std::vector<Index>& scored() const { return scored_; }
  const std::vector<RowLoss>& losses() const { return losses_; }  ///< losses of the scored rows
  Index size() const { return map_.size(); }

  /// Sum of the tail over the scored rows.
  double loss() const;
  /// Gradient dl/dtheta, length p.
  Vector gradient() const { return map_.adjoint(gradients()); }
  /// A part of the Hessian, p x p. O(n r p^2) for n scored rows with r rows in each factor.
  Matrix hessian(HessianTerm part) const;
  /// Product of a part with a direction. O(L^2 d + L d (k + e)) and the tail's n r e; nothing of size p^2.
  Vector product(HessianTerm part, const Vector& direction) const;

 private:
  Matrix gradients() const;

  AttentionMap map_;
  std::vector<Index> scored_;
  std::vector<RowLoss> losses_;
};

/// Block of a p x p matrix that belongs to two of the layer's weights.
Matrix block(const Matrix& hessian, const AttentionMap& map, Weight rows, Weight columns);

// The Hessian of a loss as a function of several heads with their output projections; used by tests only:
//
//   r_i = sum_h W_O,h^T z_h,i,   z_h = A_h X W_V,h,   loss = sum over scored rows of tail(i, r_i)
//
// The parameters of a head are [vec W_V; vec W_Q; vec W_K; vec W_O], heads one after the other. Row blocks of
// the Jacobian: W_O,h^T J_h for the first three (attention_map.hpp), z_h,i^T (x) I for W_O. Across heads the
// functional part has only the tail's J^T B^f J; within a head it adds the layer's curvature contracted with
// W_O,h g_i and, between theta and W_O, [theta, (t,s)] = J_h[t,theta] g_is.

/// One head with its output projection W_O, e x d.
struct DecoderHead {
  AttentionMap map;
  Matrix output;

  Index size() const { return map.size() + output.size(); }
};

/// Loss of one sequence behind several heads, with its derivatives at one theta. What stands in front of the
/// MLP (residual, LayerNorm) belongs to the tail.
class DecoderHeads {
 public:
  /// Evaluates the tail at the scored rows of r. At least one head; all of them see the same tokens.
  DecoderHeads(std::vector<DecoderHead> heads, const Tail& tail, std::vector<Index> scored);

  /// Number p of parameters.
  Index size() const { return begin(std::ssize(heads_)); }
  /// Position at which the parameters of a head begin.
  Index begin(Index head) const;
  double loss() const;
  /// Gradient, length p.
  Vector gradient() const;
  /// A part of the Hessian, p x p. O(n r p^2).
  Matrix hessian(HessianTerm part) const;

 private:
  Matrix jacobian(Index row) const;

  std::vector<DecoderHead> heads_;
  std::vector<Matrix> values_;  // [h]: rows z_h,i
  std::vector<Index> scored_;
  std::vector<RowLoss> losses_;
};

// Frobenius norms of the blocks of a layer's Hessian, exactly and without forming them. A block is a sum over
// scored rows of Kronecker products, and || sum_i U_i (x) N_i ||^2 = sum_ij <U_i,U_j> <N_i,N_j>. With
// D_i = tau^2 (R_i^T B_i R_i + S_i), E = tau C (VK) or tau C W_K (VQ), v' = tau C h:
//
//   VV  U = m m^T, N = B        QQ  U = x x^T, N = W_K^T D W_K        KK  U = q q^T, N = D
//   VQ  o = x, N = tau B R W_K, and VK  o = q, N = tau B R, with c_ij = (E_j^T m_i).(N_i^T g_j):
//       sum_ij (o_i.o_j) [(m_i.m_j) <N_i,N_j> + (g_i.g_j) <E_i,E_j> + c_ij + c_ji]
//   QK  o = x, N = W_K^T D, with c_ij = q_i^T N_i v'_j:
//       sum_ij (x_i.x_j) [(q_i.q_j) <N_i,N_j> + k (v'_i.v'_j) + c_ij + c_ji]
//
// The outer part has B = B^o and neither S, E nor v'; the functional part has B = B^f; H has the sum of the
// two. The sum runs over pairs of rows of all sequences: ranks that share the sequences pass their factors
// around and add up inner products.

/// Numbers of each of n rows from which the norm of one block is computed. Plain matrices, so that they can
/// be sent.
struct BlockFactors {
  Weight rows = Weight::value, columns = Weight::value;
  Matrix common;     ///< rows o_i; of a diagonal block the vector in U_i
  Matrix left;       ///< rows m_i or q_i; empty for a diagonal block
  Matrix products;   ///< rows vec N_i
  Matrix gradients;  ///< rows g_i, or sqrt(k); empty if there is no second term
  Matrix moments;    ///< rows vec E_i, or v'_i; empty if there is no second term
};

/// Factors of all scored rows of these sequences, one below the other, for a block of the upper triangle:
/// rows <= columns. O(n d^2 (d + L)), memory of n matrices of the size of a block of P.
BlockFactors block_factors(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns,
                           HessianTerm part);

/// Frobenius inner product of the two blocks that belong to factors of one kind. O(n_a n_b d^2).
double inner_product(const BlockFactors& a, const BlockFactors& b);

/// Frobenius norm of a block of the Hessian summed over the sequences.
double block_norm(const std::vector<AttentionLayer>& sequences, Weight rows, Weight columns,
                  HessianTerm part);

}  // namespace fluxformer::decoder
