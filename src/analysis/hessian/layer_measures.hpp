#pragma once

// What the studies of one attention layer measure: how large the entries of its blocks are, and the norms of
// blocks of decoders of any depth.

#include <cstdint>
#include <vector>

#include "analysis/hessian/addition_task.hpp"
#include "analysis/hessian/decoder.hpp"

namespace fluxformer::hessian {

/// The absolute values of the entries of a matrix on a logarithmic axis.
struct EntrySizes {
  double median = 0, largest_percent = 0;  ///< log10 of the median and of the 99th percentile; -inf for 0
  std::vector<double> shares;              ///< of the entries in each bin; those outside belong to none
};
/// `edges` of the bins ascend, log10. One more edge than bins. Not collective. The matrix has an entry.
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
inline constexpr Part all_parts[] = {Part::total, Part::outer, Part::functional};
/// The weights whose blocks are compared.
inline constexpr Weight studied_weights[] = {Weight::value, Weight::query, Weight::key};

/// Dense diagonal blocks of the first layer for one part: value, query, key. Depth 1. O(rows p^2).
std::vector<Matrix> diagonal_blocks(const LayerStudy& study, Part part);

/// Frobenius norms of the diagonal blocks [part][layer][weight] with embeddings of standard deviation `sigma`: exact
/// for depth 1, else estimated by Hutchinson's method. Not finite where numbers overflow.
std::vector<double> block_norms(const LayerStudy& study, double sigma);

}  // namespace fluxformer::hessian
