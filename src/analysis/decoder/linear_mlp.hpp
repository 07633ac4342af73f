#pragma once

// The Hessian of a linear network F = X W_1 ... W_n under c |F - Y|^2: what attention is compared with. With
// A_l = X W_1 .. W_{l-1}, T_l = W_{l+1} .. W_n, G = 2 c (F - Y):
//
//   H_o(l,m) = 2 c (A_l^T A_m) (x) (T_l T_m^T)
//   H_f(l,l) = 0,  H_f(l,m) [(a,b),(c,s)] = (A_l^T G T_m^T)[a,s] (W_{l+1} .. W_{m-1})[b,c]   for l < m
//
// so that every diagonal block grows as the square of the data. Source: arXiv 2410.10986.

#include <vector>

#include "analysis/decoder/attention_layer.hpp"

namespace fluxformer::decoder {

/// Parameters [vec W_1; ...; vec W_n], by rows. Not collective.
class LinearMlp {
 public:
  /// `x`: N x d_0, `target`: N x d_n, W_l: d_{l-1} x d_l.
  LinearMlp(Matrix x, const Matrix& target, double c, std::vector<Matrix> weights);

  /// c || X W_1 ... W_n - target ||_F^2.
  double loss() const;
  /// p x p.
  Matrix hessian(Part part) const;
  /// || H(l,l) ||_F = 2 c || A_l^T A_l || || T_l T_l^T ||, layers from 0; without forming the block.
  double diagonal_norm(std::size_t layer) const;

 private:
  double c_;
  std::vector<Matrix> weights_;
  std::vector<Matrix> before_;  // A_l
  std::vector<Matrix> behind_;  // T_l
  Matrix residual_;             // F - Y
};

}  // namespace fluxformer::decoder
