#pragma once

// Everything behind an attention layer of the decoder: maps of single rows with two derivatives, and the
// loss.
//
// LayerNorm without gain and bias, row by row. With c = x - mean(x), s = sqrt(|c|^2 / d + eps), y = c / s,
// and the projector P = I - 1 1^T / d:
//
//   J    = (P - y y^T / d) / s,  symmetric
//   Q(g) = sum_a g_a d2 y_a = -[(P g) y^T + y (P g)^T + (g . y) P] / (d s^2) + 3 (g . y) y y^T / (d^2 s^2)
//
// Exact for every eps >= 0. A gain gamma behind it: J becomes diag(gamma) J, Q(g) becomes Q(gamma o g).

#include <functional>
#include <optional>
#include <vector>

#include "analysis/decoder/attention_map.hpp"
#include "base/index.hpp"

namespace fluxformer::decoder {

/// LayerNorm of n rows of width d, with its derivatives. Each call costs O(n d). Not collective.
class RowNorm {
 public:
  /// No row may be constant if `epsilon` is 0.
  RowNorm(const Matrix& x, double epsilon);

  /// Values y, n x d.
  const Matrix& values() const { return y_; }
  /// Rows J_i v_i.
  Matrix times(const Matrix& v) const;
  /// Rows Q_i(g_i) v_i.
  Matrix curvature_times(const Matrix& g, const Matrix& v) const;

  /// Products of the rows of `v` (any number of them) with J of one row.
  Matrix times_one(const Matrix& v, Index row) const;
  /// Matrix Q(g) of one row, d x d.
  Matrix curvature(const Vector& g, Index row) const;

 private:
  Matrix y_;
  Vector inverse_;  // 1 / s
};

// The loss as a function of one row f_i of an attention layer's output. Everything behind the layer acts on
// each row separately, so that the layer's Hessian needs only the derivatives
//
//   g_i = dl/df_i,   d2l/df_i^2 = B^o_i + B^f_i,   B^o_i = Phi_i^T Phi_i
//
// where B^o is the Gauss-Newton part (the loss's curvature at the model's outputs), B^f the rest. A tail is
// composed of a loss and the maps in front of it, by the chain rule: behind a map y = phi(f) with Jacobian J,
//
//   g = J^T g_y,   Phi = Phi_y J,   B^f = J^T B^f_y J + sum_a (g_y)_a d2 phi_a

/// Loss of one row and its derivatives.
struct RowLoss {
  double loss = 0;
  Vector gradient;    ///< gradient g, length e
  Matrix factor;      ///< factor Phi, any number of rows x e
  Matrix functional;  ///< B^f, e x e; empty if zero
};

/// Loss as a function of a row of the sequence and its values f_row.
using Tail = std::function<RowLoss(Index row, const Vector& f)>;

/// Squared error c |f_i - y_i|^2, y_i the rows of `target` (L x e): B^o = 2 c I.
Tail squared_error(Matrix target, double c);
/// Cross entropy -w ln softmax(f_i)[label_i] with labels[i] in 0 .. e-1 and weight w, 1/N for a mean over N
/// rows: g = w (p - onehot), B^o = w (diag p - p p^T).
Tail cross_entropy(std::vector<int> labels, double weight);

/// One map y = phi(f), evaluated at one row. It may refer to the RowFunction that made it.
struct RowMap {
  Vector value;
  std::function<Matrix(const Matrix& rows)> pull;  ///< product of rows with J
  std::function<Matrix(const Vector& g)> curvature =
      {};  ///< sum_a g_a d2 phi_a; null if phi is piecewise linear
};
/// Map as a function of a row of the sequence and its values f_row.
using RowFunction = std::function<RowMap(Index row, const Vector& f)>;

/// Tail f -> tail(map(f)).
Tail behind(RowFunction map, Tail tail);

// Maps of one row: output projection, residual, LayerNorm, MLP, readout. The tail of a Transformer block,
// from the values z of its attention layer to the loss, is
//
//   behind(projection(W_O), behind(shifted(rho X), behind(residual_mlp(...),
//          behind(layer_norm(eps), behind(projection(W_U), ...)))))

/// Map f -> W^T f for W (e x V).
RowFunction projection(Matrix w);
/// Map f -> f + s_i with rows s_i of `shift`: a residual rho x_i (L x e), or a bias in every row.
RowFunction shifted(Matrix shift);
/// Map f -> LN(f), without gain and bias (RowNorm).
RowFunction layer_norm(double epsilon);

/// Nonlinearity phi of an MLP. ReLU counts as piecewise linear: its kinks are left out.
enum class Nonlinearity { relu, tanh };

/// Weights W_in (d x h), b_in (h), W_out (h x d), b_out (d), and the epsilon of a LayerNorm in front, if
/// there is one.
struct MlpWeights {
  Matrix in;
  Vector in_bias;
  Matrix out;
  Vector out_bias;
  Nonlinearity nonlinearity = Nonlinearity::relu;
  std::optional<double> norm_epsilon = std::nullopt;
};

/// Map r -> r + W_out^T phi(W_in^T n + b_in) + b_out with n = LN(r) or r. Pulling m rows back costs O(m d h).
RowFunction residual_mlp(MlpWeights weights);

}  // namespace fluxformer::decoder
