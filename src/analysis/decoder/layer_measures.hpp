#pragma once

// Measures of the studies of one attention layer: sizes of the entries of its blocks, norms of blocks of
// decoders of any depth, and for comparison those of a linear network.
//
// The Hessian of a linear network F = X W_1 ... W_n under c |F - Y|^2, with A_l = X W_1 .. W_{l-1}, T_l =
// W_{l+1} .. W_n, G = 2 c (F - Y):
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
#include "base/index.hpp"

namespace fluxformer::decoder {

/// Linear network with the parameters [vec W_1; ...; vec W_n], by rows. Not collective.
class LinearMlp {
 public:
  /// `x` is N x d_0, `target` N x d_n, W_l d_{l-1} x d_l.
  LinearMlp(Matrix x, const Matrix& target, double c, std::vector<Matrix> weights);

  /// Loss c || X W_1 ... W_n - target ||_F^2. Used by tests only.
  double loss() const;
  /// A part of the Hessian, p x p. Used by tests only.
  Matrix hessian(HessianTerm part) const;
  /// Norm || H(l,l) ||_F = 2 c || A_l^T A_l || || T_l T_l^T || of a diagonal block, without the block; layers
  /// from 0.
  double diagonal_norm(Index layer) const;

 private:
  double c_;
  std::vector<Matrix> weights_;
  std::vector<Matrix> before_;  // [l]: A_l
  std::vector<Matrix> behind_;  // [l]: T_l
  Matrix residual_;             // F - Y
};

/// Distribution of the absolute values of the entries of a matrix on a logarithmic axis.
struct EntrySizes {
  double median = 0, largest_percent = 0;  ///< log10 of the median and of the 99th percentile; -inf for 0
  std::vector<double> shares;              ///< [bin]: share of the entries in the bin; others belong to none
};
/// Sizes of the entries of a matrix, which has at least one. `edges` of the bins ascend (log10), one more
/// than bins. All sizes are NaN if an entry is. Not collective.
EntrySizes entry_sizes(const Matrix& matrix, const std::vector<double>& edges);

/// Decoder, data and effort of a measurement.
struct LayerStudy {
  DecoderShape shape;
  LogitLoss loss = LogitLoss::cross_entropy;
  int sequences = 64;
  int probes = 20;         ///< number of random vectors of each norm for depth > 1
  std::uint64_t seed = 1;  ///< seed of data, weights and probes
};

/// Parts of the Hessian in the order of all measures: H, H_o, H_f.
inline constexpr HessianTerm all_parts[] = {HessianTerm::total, HessianTerm::outer, HessianTerm::functional};
/// Weights whose blocks are compared.
inline constexpr Weight studied_weights[] = {Weight::value, Weight::query, Weight::key};

/// Dense diagonal blocks of a decoder of depth 1 for one part: value, query, key. O(rows p^2).
std::vector<Matrix> diagonal_blocks(const LayerStudy& study, HessianTerm part);

/// Rows [begin, end) of log10(|H| + 1e-6) for the whole H over all weights of the decoder, in the order of
/// parameter_blocks(). Costs a product with H for each row. Not collective.
std::vector<float> entry_logarithms(const LayerStudy& study, Index begin, Index end);

/// Frobenius norms of the diagonal blocks [part][layer][weight] with embeddings of standard deviation
/// `sigma`: exact for depth 1, else estimated by Hutchinson's method. Not finite where numbers overflow.
std::vector<double> block_norms(const LayerStudy& study, double sigma);

/// Frobenius norms of the diagonal blocks [part][layer] of a network X W_1 .. W_n without activation on the
/// same data: rows of X are the token embeddings of the scored rows, without positions, those of the decoder
/// of this seed; W_1 .. W_{n-1} are d x d, W_n is d x vocabulary, uniform in +- 1 / sqrt(rows); the loss is
/// the squared error to the one-hot of the current token whatever `study` says. Exact; the functional part of
/// a diagonal block is 0.
std::vector<double> linear_mlp_norms(const LayerStudy& study, double sigma);

}  // namespace fluxformer::decoder
