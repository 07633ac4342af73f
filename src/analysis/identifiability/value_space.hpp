#pragma once

// What the output of an attention head can tell of its weights: the column space of T = V H (n x d), and that
// of [T, 1]. Weights A and A + X give the same output if and only if each row of X is orthogonal to col(T); the
// rows of X must be orthogonal to col([T, 1]) if those of A + X must keep their sum. Source: Brunner et al.,
// arXiv 1908.04211, section 3; specification of identifiability, sections 2 and 3.
//
// T = V H is not formed: with H = L Q, the smaller matrix V L (n x d_v) has its column space. Both blocks of
// [T, 1] are scaled to Frobenius norm 1, so that the threshold of the rank does not depend on units.

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/numerical_rank.hpp"
#include "analysis/identifiability/thin_svd.hpp"

namespace fluxformer::identifiability {

/// Whether the rows of a matrix are independent by the rule of `rank_threshold`. False if it is not finite.
bool has_full_row_rank(const Matrix& a);

/// L of H = L Q with orthonormal rows in Q: d_v x min(d_v, d).
Matrix output_factor(const Matrix& output);

/// n x min(d_v, d): V L from H = L Q with orthonormal rows in Q, which has T's left null space and singular values.
Matrix compact_values(const AttentionHead& head);

/// [T, 1] with both blocks scaled to norm 1, n x (m + 1) from n x m; a block of zeros stays as it is.
Eigen::MatrixXd with_ones(const Matrix& values);

/// The column space of a matrix of n rows.
struct ColumnSpace {
  Eigen::VectorXd values;  ///< singular values of the matrix, in descending order
  NumericalRank rank;
  Eigen::MatrixXd basis;  ///< n x rank, orthonormal columns

  /// Whether nothing is orthogonal to it.
  bool everything() const { return rank.rank == basis.rows(); }
  /// Each row of X (any number of rows, n columns) replaced by its orthogonal projection; X itself if
  /// `everything`. NaN if the matrix was not finite. O(rows n rank).
  Matrix project(const Matrix& x) const;
  /// What `project` removes, X less its projection; exactly 0 if `everything`.
  Matrix remove(const Matrix& x) const;
};

/// By QR and singular values of the small factor; its singular vectors only where the rank is not full.
ColumnSpace column_space(const Eigen::MatrixXd& a);

/// Both column spaces of a head without a causal mask, from one QR factorisation.
class ValueSpace {
 public:
  /// Of T = values * output. The mask of the head does not matter: all rows are used.
  explicit ValueSpace(const AttentionHead& head) : ValueSpace(compact_values(head)) {}
  /// Of any n x m matrix with T's left null space.
  explicit ValueSpace(const Matrix& values);

  const ColumnSpace& linear() const { return linear_; }    ///< col(T)
  const ColumnSpace& simplex() const { return simplex_; }  ///< col([T, 1])

 private:
  ColumnSpace linear_, simplex_;
};

}  // namespace fluxformer::identifiability
