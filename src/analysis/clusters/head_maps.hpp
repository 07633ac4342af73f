#pragma once

// Do the attention heads of a model satisfy the hypotheses of cluster theory? There a single head has one matrix for what tokens look for and
// for what they take, W_O W_V = s W_Q^T W_K with s > 0, symmetric and positive semi-definite. Then their energy with k = e^{<x, M y>} never
// falls.
//
//   M = G W_Q^T W_K G,    V = W_O W_V G,    G = diag(gain of the norm in front of attention)
//
// Biases, norms of queries and keys, and rotary positions are left out: M is that of two tokens at the same place.

#include <vector>

#include "analysis/dense_matrices.hpp"
#include "model/parameters.hpp"

namespace fluxformer::clusters {

/// How far a head is from the hypotheses. Numbers without unit unless said.
struct HeadMap {
  double value_radius = 0;    ///< largest |eigenvalue| of V: how fast values stretch the state, per layer
  double value_scale = 0;     ///< s for which s M is nearest to V
  double value_mismatch = 0;  ///< |V - s M| / |V|: 0 if V is a multiple of M, 1 if it has nothing of it
  double antisymmetry = 0;    ///< |M - M^T| / (2 |M|): 0 if M is symmetric, 1 if antisymmetric
  double least_eigenvalue =
      0;  ///< smallest eigenvalue of (M + M^T) / 2 over its largest in size: 0 or more if semi-definite
};

/// The heads at the beginning of each layer, [layer][head]. Norms are those of Frobenius. Not collective.
std::vector<HeadMap> head_maps(const Parameters& parameters);

/// The energies of tokens in the kernels of the heads themselves,
///
///   E = 1/n^2 sum_ij e^{a_ij},   a_ij = <x_i, M x_j> / sqrt(c)      (attention.kernel = l2: -|Q x_i - K x_j|^2 / 2)
///
/// where x are the tokens that attention sees, before the gain: behind the norm for norm = pre, else the states themselves. The 1/(2 beta) of
/// theory is left out: it changes no difference of logarithms. All pairs count, also those that a mask hides. Without a norm in front of attention
/// tokens are on no sphere: their lengths count.
class HeadKernels {
 public:
  /// Keeps queries and keys at the beginning of each layer.
  explicit HeadKernels(const Parameters& parameters);
  /// to[head] := log E of the states u [token][channel] with the heads of layer l = 1 .. S; the largest a_ij is taken out of the sum, so that
  /// nothing overflows. NaN for no tokens. Cost: n d (H + G) c + H n^2 c products and H n^2 exponentials. Not collective.
  void put_log_energies(int layer, const RowMatrix& u, double* to) const;

 private:
  struct Layer {
    RowMatrix queries_and_keys;  // [(H + G) c][d]
    std::vector<double> gain;    // [d]; empty: no norm
    NormSettings norm;
  };
  AttentionSettings attention_;
  Index channels_;
  std::vector<Layer> layers_;
};

}  // namespace fluxformer::clusters
