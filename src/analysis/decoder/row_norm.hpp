#pragma once

// LayerNorm without gain and bias, row by row, with its two derivatives. With c = x - mean(x),
// s = sqrt(|c|^2 / d + eps), y = c / s, and the projector P = I - 1 1^T / d:
//
//   J    = (P - y y^T / d) / s,  symmetric
//   Q(g) = sum_a g_a d2 y_a = -[(P g) y^T + y (P g)^T + (g . y) P] / (d s^2) + 3 (g . y) y y^T / (d^2 s^2)
//
// Exact for every eps >= 0. A gain gamma behind it: J becomes diag(gamma) J, Q(g) becomes Q(gamma o g).

#include "analysis/decoder/attention_moments.hpp"

namespace fluxformer::decoder {

/// Rows of width d, n of them, and what their derivatives need. O(n d) each. Not collective.
class RowNorm {
 public:
  /// No row may be constant if `epsilon` is 0.
  RowNorm(const Matrix& x, double epsilon);

  /// y, n x d.
  const Matrix& values() const { return y_; }
  /// Rows J_i v_i.
  Matrix times(const Matrix& v) const;
  /// Rows Q_i(g_i) v_i.
  Matrix curvature_times(const Matrix& g, const Matrix& v) const;

  /// Rows of `v` (any number of them) times J of one row.
  Matrix times_one(const Matrix& v, Index row) const;
  /// Q(g) of one row, d x d.
  Matrix curvature(const Vector& g, Index row) const;

 private:
  Matrix y_;
  Vector inverse_;  // 1 / s
};

}  // namespace fluxformer::decoder
