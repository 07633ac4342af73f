#pragma once

// The Hessian of a linear network F = X W_1 ... W_n under c |F - Y|^2: what attention is compared with. With
// A_l = X W_1 .. W_{l-1}, T_l = W_{l+1} .. W_n, G = 2 c (F - Y):
//
//   H_o(l,m) = 2 c (A_l^T A_m) (x) (T_l T_m^T)
//   H_f(l,l) = 0,  H_f(l,m) [(a,b),(c,s)] = (A_l^T G T_m^T)[a,s] (W_{l+1} .. W_{m-1})[b,c]   for l < m
//
// so that every diagonal block grows as the square of the data. Source: arXiv 2410.10986.

#include <cstdint>
#include <vector>

#include "analysis/decoder/addition_task.hpp"
#include "analysis/decoder/attention_layer.hpp"
#include "analysis/decoder/decoder.hpp"

namespace fluxformer::decoder {

/// Parameters [vec W_1; ...; vec W_n], by rows. Not collective.
class LinearMlp {
 public:
  /// `x`: N x d_0, `target`: N x d_n, W_l: d_{l-1} x d_l.
  LinearMlp(Matrix x, const Matrix& target, double c, std::vector<Matrix> weights);

  /// c || X W_1 ... W_n - target ||_F^2.
  double loss() const;
  /// p x p.
  Matrix hessian(HessianTerm part) const;
  /// || H(l,l) ||_F = 2 c || A_l^T A_l || || T_l T_l^T ||, layers from 0; without forming the block.
  double diagonal_norm(std::size_t layer) const;

 private:
  double c_;
  std::vector<Matrix> weights_;
  std::vector<Matrix> before_;  // A_l
  std::vector<Matrix> behind_;  // T_l
  Matrix residual_;             // F - Y
};

// What the studies of one attention layer measure: how large the entries of its blocks are, the norms of blocks of
// decoders of any depth, and for comparison those of a linear network.

/// The absolute values of the entries of a matrix on a logarithmic axis.
struct EntrySizes {
  double median = 0, largest_percent = 0;  ///< log10 of the median and of the 99th percentile; -inf for 0
  std::vector<double> shares;              ///< of the entries in each bin; those outside belong to none
};
/// `edges` of the bins ascend, log10. One more edge than bins. All sizes are NaN if an entry is. Not collective.
/// The matrix has an entry.
EntrySizes entry_sizes(const Matrix& matrix, const std::vector<double>& edges);

/// How a decoder is measured.
struct LayerStudy {
  DecoderShape shape;
  LogitLoss loss = LogitLoss::cross_entropy;
  int sequences = 64;
  int probes = 20;         ///< random vectors of each norm for depth > 1
  std::uint64_t seed = 1;  ///< of data, weights and probes
};

/// H, H_o, H_f in that order.
inline constexpr HessianTerm all_parts[] = {HessianTerm::total, HessianTerm::outer, HessianTerm::functional};
/// The weights whose blocks are compared.
inline constexpr Weight studied_weights[] = {Weight::value, Weight::query, Weight::key};

/// Dense diagonal blocks of the first layer for one part: value, query, key. Depth 1. O(rows p^2).
std::vector<Matrix> diagonal_blocks(const LayerStudy& study, HessianTerm part);

/// Rows [begin, end) of log10(|H| + 1e-6) for the whole H over all weights of the decoder, in the order of
/// parameter_blocks(); a product with H for each of them. Not collective.
std::vector<float> entry_logarithms(const LayerStudy& study, Index begin, Index end);

/// Frobenius norms of the diagonal blocks [part][layer][weight] with embeddings of standard deviation `sigma`: exact
/// for depth 1, else estimated by Hutchinson's method. Not finite where numbers overflow.
std::vector<double> block_norms(const LayerStudy& study, double sigma);

/// The same [part][layer] of a network X W_1 .. W_n without activation on the same data: rows of X are the token
/// embeddings of the scored rows, without positions, those of the decoder of this seed; W_1 .. W_{n-1} are d x d, W_n
/// is d x vocabulary, uniform in +- 1 / sqrt(rows); the loss is the sum of squares to the one-hot of the token at hand
/// whatever `study` says. Exact; the functional part of a diagonal block is 0.
std::vector<double> linear_mlp_norms(const LayerStudy& study, double sigma);

}  // namespace fluxformer::decoder
