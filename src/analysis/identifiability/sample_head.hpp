#pragma once

// One attention head at one sample: what it mixes, and with which weights. Source: docs/model.md, section
// 10.1.

#include <Eigen/Core>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::identifiability {

/// Numbers in rows, one token after the other.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A head at a sample of n real tokens (padding is removed); its output is weights * values * output. Queries
/// see keys 0 .. n-1, or 0 .. x under a causal mask.
struct SampleHead {
  Matrix weights;  ///< A, n x n: rows sum to 1
  Matrix queries;  ///< Q, n x d_k
  Matrix keys;     ///< K, n x d_k; A = softmax(Q K^T / sqrt(d_k))
  Matrix values;   ///< V = E W_V + 1 b_V^T, n x d_v
  Matrix output;   ///< H, d_v x d: the head's slice of the output projection
  bool causal = false;
  /// A factor of H with factor factor^T = H H^T, d_v x min(d_v, d), the same for all samples; empty: not
  /// computed. Clear it where `output` changes.
  Matrix factor = {};

  int tokens() const { return weights.rows(); }
  /// The head of the first `count` tokens alone: weights are cut and every row is divided by its sum.
  SampleHead first(int count) const {
    SampleHead cut{.weights = weights.topLeftCorner(count, count),
                   .queries = queries.topRows(count),
                   .keys = keys.topRows(count),
                   .values = values.topRows(count),
                   .output = output,
                   .causal = causal,
                   .factor = factor};
    for (Index i = 0; i < count; ++i) cut.weights.row(i) /= cut.weights.row(i).sum();
    return cut;
  }
};

/// All heads of one layer and one sample.
using LayerHeads = std::vector<SampleHead>;

}  // namespace fluxformer::identifiability
