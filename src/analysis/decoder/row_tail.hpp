#pragma once

// The loss as a function of one row f_i of an attention layer's output: everything behind the layer acts on
// each row separately, so the layer's Hessian needs of it, per row, only
//
//   g_i = dl/df_i,   d2l/df_i^2 = B^o_i + B^f_i,   B^o_i = Phi_i^T Phi_i
//
// where B^o is the Gauss-Newton part (the loss's curvature at the model's outputs), B^f the rest. A tail is put
// together from a loss and the maps in front of it, by the chain rule: behind a map y = phi(f) with Jacobian J,
//
//   g = J^T g_y,   Phi = Phi_y J,   B^f = J^T B^f_y J + sum_a (g_y)_a d2 phi_a

#include <functional>
#include <vector>

#include "analysis/decoder/attention_moments.hpp"

namespace fluxformer::decoder {

/// Loss of one row and its derivatives.
struct RowLoss {
  double loss = 0;
  Vector gradient;    ///< g, length e
  Matrix factor;      ///< Phi, any number of rows x e
  Matrix functional;  ///< B^f, e x e; empty: zero
};

/// Of (row of the sequence, f_row).
using Tail = std::function<RowLoss(Index row, const Vector& f)>;

/// c |f_i - y_i|^2, y_i the rows of `target` (L x e): B^o = 2 c I.
Tail squared_error(Matrix target, double c);
/// -w ln softmax(f_i)[label_i] with labels[i] in 0 .. e-1 and weight w, 1/N for a mean over N rows:
/// g = w (p - onehot), B^o = w (diag p - p p^T).
Tail cross_entropy(std::vector<int> labels, double weight);

/// One map y = phi(f), evaluated at one row. May refer to the RowFunction that made it.
struct RowMap {
  Vector value;
  std::function<Matrix(const Matrix& rows)> pull;  ///< rows J
  std::function<Matrix(const Vector& g)> curvature =
      {};  ///< sum_a g_a d2 phi_a; none: phi is piecewise linear
};
/// Of (row of the sequence, f_row).
using RowFunction = std::function<RowMap(Index row, const Vector& f)>;

/// The tail f -> tail(map(f)).
Tail behind(RowFunction map, Tail tail);

}  // namespace fluxformer::decoder
