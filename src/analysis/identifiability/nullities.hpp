#pragma once

// How many attention weights give the same output of a head, as dimensions of freedom of one row of weights.
// For n tokens and T = V H (column_space.hpp):
//
//   linear   n - rank T         any change of the row
//   simplex  n - rank [T, 1]    changes that keep the row's sum. Rows of a soft-max are positive, so that
//                               small changes stay non-negative: weights are not unique if and only
//                               if this is > 0.
//
// Freedom that a soft-max reaches: weights that give the same output must also come from softmax(Q K^T /
// sqrt(d_k)). It is counted at first order, as null spaces of tangents (local: another query with the same
// output may exist far away, too). With a row a > 0, its keys K (n x d_k), C = diag(a) - a a^T,
//
//   query   query free, keys fixed: D = C K, nullity rank D - rank T^T D;
//           generic max(0, min(d_k, n - 1) - (rank [T, 1] - 1)).
//   joint   all queries and keys free: row i of the output moves by (dq_i K^T + q_i dK^T) C_i T / sqrt(d_k);
//           nullity rank of (dQ, dK) -> dA less that of (dQ, dK) -> dA T;
//           generic max(0, 2 n d_k - d_k^2 - d_k - n d_v), without a causal mask.
//
// The factor 1/sqrt(d_k) changes no rank and is left out. Beside all of them stand the epsilon-nullities,
// which count singular values not above epsilon * s_max as zeros, too: how much freedom there is in practice.
//
// Causal mask: row i has i + 1 tokens, the first i + 1 keys and rows of T. The number of a head is the mean
// over its rows. The thresholds of all its rows are relative to s_max of the whole matrix. Source: Brunner et
// al., arXiv 1908.04211, section 3; Bhardwaj et al., ACL 2021; docs/model.md, sections 10.2 and 10.3.

#include <array>
#include <vector>

#include "analysis/identifiability/column_space.hpp"
#include "analysis/identifiability/sample_head.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {

/// The epsilons, relative to the largest singular value.
inline constexpr std::array<double, 3> nullity_epsilons{1e-2, 1e-3, 1e-6};

/// Dimensions of freedom of a row of weights; a mean over rows where they differ. NaN for values that are not
/// finite.
struct Nullity {
  double exact = 0;  ///< nullity by the rule of `rank_threshold`
  std::array<double, nullity_epsilons.size()>
      epsilon{};      ///< nullities for each of `nullity_epsilons`, never below exact
  double margin = 0;  ///< margin of the rank (NumericalRank); under a causal mask that of all rows together

  /// True if `exact` is clear of the threshold.
  bool certain() const { return margin >= 100; }
};

/// Both nullities of a head.
struct HeadNullities {
  Nullity linear, simplex;
};

/// Nullities of a head without a causal mask, from its factors: O(d_v^2) more.
HeadNullities nullities(const ValueSpace& space);
/// Nullities of any head. Cost without a mask: that of ValueSpace; with a mask two to n times as much.
HeadNullities nullities(const SampleHead& head);

/// Freedom that the heads of a layer have together beyond that of each alone, per row of all heads:
/// dimensions of {(x_h): sum_h x_h^T T_h = 0}, linear or with 1^T x_h = 0 for each head, less the sum over
/// heads. Exactly 0 if the output projection [H_1; H_2; ...] has full row rank, as an invertible one has.
/// Never negative.
struct ExcessNullity {
  double linear = 0, simplex = 0;
};

/// True if the projection has full row rank: the excess is 0 for every sample. Takes the H alone, so that it
/// need be asked but once a layer. O((heads d_v)^3).
bool heads_add_up(const LayerHeads& heads);

/// The excess of the heads of one layer and one sample, which have the same tokens and mask. Causal: mean
/// over rows. NaN for values that are not finite. Cost: that of `heads_add_up`, and where they do not some
/// times as much, under a causal mask for each row.
ExcessNullity excess_nullity(const LayerHeads& heads);

/// (diag(a) - a a^T) X for a row a of n positive weights that sum to 1, X n x m: the tangent of
/// q -> softmax(q X^T) if the scores have no factor. O(n m).
Matrix softmax_tangent(const Eigen::RowVectorXd& a, const Matrix& x);

/// A count of directions, and how clear it is.
struct JointNullity {
  double exact = 0;   ///< number of directions; NaN for numbers that are not finite
  double margin = 0;  ///< smallest margin of the ranks that enter
  /// True if `exact` is clear of the thresholds.
  bool certain() const { return margin >= 100; }
};

/// Counts for one head of the weights that a soft-max reaches.
class ReachableNullities {
 public:
  /// Borrows the head.
  explicit ReachableNullities(const SampleHead& head);

  /// The nullity of one row, queries alone. The exact threshold of T^T D is relative to |T|_F |D|_F; the
  /// epsilon ones to the largest singular value of T^T D, out of rank D. NaN unless all is finite. O(n d_k
  /// (d_k + d_v)).
  Nullity query(int row) const;
  /// Means over some rows, at least one; the margin is the least.
  Nullity query(const std::vector<int>& rows) const;
  /// The nullity of queries and keys of all tokens together. Cost: O(n d_k d_v) a row, and where d_v exceeds
  /// d_k also singular values of a matrix of n (d_v - d_k) x n d_k; under a causal mask of one of n^2/2 x n
  /// d_k.
  JointNullity joint() const;

 private:
  Index seen(Index row) const { return head_.causal ? row + 1 : head_.weights.cols(); }
  Matrix shifted_values(Index seen) const;
  const SampleHead& head_;
  Matrix values_;  ///< n x m, with T's null space
  bool finite_;
};

/// min(count, tokens) different rows in increasing order, all sets equally likely.
std::vector<int> sampled_rows(int tokens, int count, const RandomStream& stream);

}  // namespace fluxformer::identifiability
