#pragma once

// What one attention head does to one sample: its output is weights * values * output.

#include <Eigen/Core>
#include <vector>

namespace fluxformer::identifiability {

/// Numbers in rows, one token after the other.
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// n real tokens: padding is removed. Queries see keys 0 .. n-1, or 0 .. x under a causal mask.
struct SampleHead {
  Matrix weights;  ///< A, n x n: rows sum to 1
  Matrix queries;  ///< n x d_k
  Matrix keys;     ///< n x d_k; A = softmax(queries keys^T / sqrt(d_k))
  Matrix values;   ///< V = E W_V + 1 b_V^T, n x d_v
  Matrix output;   ///< H, d_v x d: the head's slice of the output projection
  bool causal = false;
  /// d_v x min(d_v, d) with the same product factor factor^T = H H^T, which is that of all samples; empty: not computed. It
  /// must go where `output` changes.
  Matrix factor = {};

  int tokens() const { return static_cast<int>(weights.rows()); }
  /// The head of the first `count` tokens alone: weights are cut and every row is divided by its sum.
  SampleHead first(int count) const;
};

/// All heads of one layer and one sample.
using LayerHeads = std::vector<SampleHead>;

}  // namespace fluxformer::identifiability
