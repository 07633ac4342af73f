#pragma once

// One layer of the decoder with its tangent, its adjoint and the tangent of the adjoint (the R-operator of
// Pearlmutter 1994), for products with the Hessian of a stack of layers. Arrays hold all sequences of the batch,
// one below the other (n L x d); attention works sequence by sequence.
//
//   forward     A from T = tau Q K^T,  Z = A V,   R = rho X + Z W_O,   X' = R + relu(n(R) W_in + b_in) W_out + b_out
//               post-norm: R and X' are n of these sums
//   tangent     A_dot = A o (T_dot - rowsum(A o T_dot)), linear: T_dot on the mask; the others by the product rule
//   adjoint     T_bar = A o (A_bar - s), s = rowsum(A o A_bar), linear: A_bar on the mask
//   its tangent T_bar_dot = A_dot o (A_bar - s) + A o (A_bar_dot - s_dot), s_dot = rowsum(A_dot o A_bar + A o A_bar_dot)

#include <optional>
#include <vector>

#include "analysis/decoder/decoder.hpp"
#include "analysis/decoder/row_norm.hpp"

namespace fluxformer::decoder {

/// Adjoints (bar) of what a layer computes, or their tangents.
struct LayerAdjoint {
  Matrix normed, q, k, v, z, sum, r, normed_r, pre, last,
      next;                             ///< n(X), ..., R and X' behind `sum` and `last`
  std::vector<Matrix> weights, scores;  ///< A_bar and T_bar of each sequence
};

/// Values of a layer, or their tangents.
struct LayerValues {
  Matrix x, normed, q, k, v, z, sum, r, normed_r, hidden, last, next;  ///< likewise
  std::vector<Matrix> weights;                                         ///< A of each sequence
};

/// At one theta and one batch. O(n L (L d + d^2 + d h)) for each call.
class DecoderLayer {
 public:
  /// `x`: n length x d.
  DecoderLayer(const DecoderShape& shape, DecoderLayerWeights weights, const Matrix& x);

  /// X'.
  const Matrix& output() const { return at_.next; }
  /// Values' tangent along x_dot and a direction of the weights.
  LayerValues tangent(const Matrix& x_dot, const DecoderLayerWeights& direction) const;
  /// X_bar from X'_bar; `gradient` is overwritten, and `kept` by what adjoint_tangent needs.
  Matrix adjoint(const Matrix& next_bar, DecoderLayerWeights& gradient, LayerAdjoint& kept) const;
  /// The tangent of X_bar and of the gradient, from that of X'_bar.
  Matrix adjoint_tangent(const Matrix& next_bar_dot, const LayerAdjoint& bar, const LayerValues& dot,
                         const DecoderLayerWeights& direction, DecoderLayerWeights& gradient_dot) const;

 private:
  Matrix masked(Matrix scores) const;
  Matrix normed_times(const std::optional<RowNorm>& norm, const Matrix& v) const;

  DecoderShape shape_;
  DecoderLayerWeights w_;
  double tau_;
  LayerValues at_;
  Matrix on_;                                   // 1 where the pre-activation is positive
  std::optional<RowNorm> norm_, norm_r_;        // in front of attention and MLP
  std::optional<RowNorm> behind_, behind_mlp_;  // behind their sums
};

}  // namespace fluxformer::decoder
