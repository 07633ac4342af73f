#pragma once

// Maps of one row for the tail behind an attention layer: output projection, residual, LayerNorm, MLP, readout.
// The tail of a Transformer block, from the values z of its attention layer to the loss, is
//
//   behind(projection(W_O), behind(shifted(rho X), behind(residual_mlp(...), behind(layer_norm(eps), behind(projection(W_U), ...)))))

#include <optional>

#include "analysis/decoder/row_tail.hpp"

namespace fluxformer::decoder {

/// f -> W^T f for W (e x V).
RowFunction projection(Matrix w);
/// f -> f + s_i, rows s_i of `shift`: a residual rho x_i (L x e), or a bias in every row.
RowFunction shifted(Matrix shift);
/// f -> LN(f), without gain and bias; see row_norm.hpp.
RowFunction layer_norm(double epsilon);

/// phi of an MLP. ReLU counts as piecewise linear: its kinks are left out.
enum class Nonlinearity { relu, tanh };

/// W_in (d x h), b_in (h), W_out (h x d), b_out (d), and the epsilon of a LayerNorm in front, if there is one.
struct MlpWeights {
  Matrix in;
  Vector in_bias;
  Matrix out;
  Vector out_bias;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  std::optional<double> norm_epsilon = std::nullopt;
};

/// r -> r + W_out^T phi(W_in^T n + b_in) + b_out with n = LN(r) or r. Pulling m rows back costs O(m d h).
RowFunction residual_mlp(MlpWeights weights);

}  // namespace fluxformer::decoder
