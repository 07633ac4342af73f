#pragma once

// Freedom of attention weights that a soft-max can reach: weights that give the same output must also come from
// softmax(Q K^T / sqrt(d_k)). Counted at first order, as null spaces of tangents (local: another query with the
// same output may exist far away, too). With a row a > 0, its keys K (n x d_k), C = diag(a) - a a^T,
//
//   query   query free, keys fixed: D = C K, nullity rank D - rank T^T D;
//           generic max(0, min(d_k, n - 1) - (rank [T, 1] - 1)).
//   joint   all queries and keys free: row i of the output changes by (dq_i K^T + q_i dK^T) C_i T / sqrt(d_k);
//           nullity rank of (dQ, dK) -> dA less that of (dQ, dK) -> dA T;
//           generic max(0, 2 n d_k - d_k^2 - d_k - n d_v), without a causal mask.
//
// The factor 1/sqrt(d_k) changes no rank and is left out. Source: specification of identifiability, section 2,
// after Bhardwaj et al., ACL 2021. Row j of D is a_j sum_k a_k (K_j - K_k), formed from the differences
// to the key of the largest weight: no cancellation where that weight is near 1. T^T D is formed from T less its first row, which C removes in exact arithmetic. Causal mask: row i
// has the first i + 1 keys and rows of T.

#include <vector>

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/nullities.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {

/// (diag(a) - a a^T) X for a row a of n positive weights that sum to 1, X n x m: the tangent of
/// q -> softmax(q X^T) if the scores have no factor. O(n m).
Matrix softmax_tangent(const Eigen::RowVectorXd& a, const Matrix& x);

/// A count of directions, and how clear it is.
struct JointNullity {
  double exact = 0;   ///< NaN for numbers that are not finite
  double margin = 0;  ///< the least of all ranks that enter
  /// Whether `exact` is clear of the thresholds.
  bool certain() const { return margin >= 100; }
};

/// Counts for one head.
class ReachableNullities {
 public:
  /// Borrows the head.
  explicit ReachableNullities(const AttentionHead& head);

  /// Of one row, queries alone. The exact threshold of T^T D is relative to |T|_F |D|_F; the epsilon ones to the
  /// largest singular value of T^T D, out of rank D. NaN unless all is finite. O(n d_k (d_k + d_v)).
  Nullity query(int row) const;
  /// Means over some rows, at least one; the margin is the least.
  Nullity query(const std::vector<int>& rows) const;
  /// Of queries and keys of all tokens together. Cost: O(n d_k d_v) a row, and where d_v exceeds d_k also
  /// singular values of a matrix of n (d_v - d_k) x n d_k; under a causal mask of one of n^2/2 x n d_k.
  JointNullity joint() const;

 private:
  Eigen::Index seen(Eigen::Index row) const { return head_.causal ? row + 1 : head_.weights.cols(); }
  Matrix shifted_values(Eigen::Index seen) const;
  const AttentionHead& head_;
  Matrix values_;  // n x m, with T's null space
  bool finite_;
};

/// min(count, tokens) different rows in increasing order, all sets equally likely.
std::vector<int> sampled_rows(int tokens, int count, const RandomStream& stream);

}  // namespace fluxformer::identifiability
