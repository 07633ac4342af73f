#pragma once

// QR factors and singular values by LAPACK. The counts of identifiability need them for every head of every
// sample; for matrices of 128 x 64 numbers LAPACK is several times as fast as Eigen's own decompositions. Not
// collective.

#include <Eigen/Core>
#include <vector>

#include "analysis/identifiability/sample_head.hpp"

namespace fluxformer::identifiability {

/// A = Q R of an n x m matrix, k = min(n, m).
struct QrFactors {
  Eigen::MatrixXd q;  ///< n x k, orthonormal columns; the first j span the first j columns of A, if j <= k
  Eigen::MatrixXd r;  ///< k x m, zero below the diagonal
};

/// By Householder reflections, O(n m k).
QrFactors qr_factors(Eigen::MatrixXd a);
/// R alone.
Eigen::MatrixXd upper_factor(Eigen::MatrixXd a);

/// A = U diag(values) Z^T of an n x m matrix, k = min(n, m); Z is left out.
struct ThinSvd {
  Eigen::VectorXd values;  ///< k, in descending order
  Eigen::MatrixXd left;    ///< U, n x k
};

/// Errors are about 1e-16 of the largest value. NaN unless all of A is finite, and if LAPACK does not converge.
ThinSvd thin_svd(Eigen::MatrixXd a);

/// The values alone, in descending order, min(n, m) of them; NaN as in `thin_svd`.
Eigen::VectorXd singular_values(Eigen::MatrixXd a);

// The rank of a matrix from its singular values: how many of them are above a threshold. Beside it the margin,
// the ratio of the values on both sides of the cut, tells how clear the cut is. Source: specification of
// identifiability, section 2.

/// A count of singular values, and how far it is from the next one.
struct NumericalRank {
  int rank = 0;
  /// The smallest value that counts over the largest that does not; where none is left, over the threshold.
  /// Infinite for a matrix of zeros and where the next value is 0. NaN for values that are not finite.
  double margin = 0;

  /// False where the margin is below 100: then the rank is a matter of the threshold.
  bool certain() const { return margin >= 100; }
};

/// s_max * max(rows, columns) * 2^-52, for singular values in descending order; 0 if there are none.
double rank_threshold(const Eigen::VectorXd& values, Eigen::Index rows, Eigen::Index columns);

/// How many values, in descending order, are above the threshold; 0 if they are not finite.
NumericalRank numerical_rank(const Eigen::VectorXd& values, double threshold);

// Ranks and column spaces of the first 1, 2, ... n rows of a matrix: what the tokens of a causal head see. A
// further row increases the number of singular values above a fixed threshold by 0 or 1 (interlacing), so that
// two counts often fix all those in between, and bisection finds the others. Source: specification of
// identifiability, section 2; Golub and Van Loan, Matrix Computations, theorem 8.1.7 and section 6.5.

/// Counts for the leading rows of one n x m matrix. Singular values are computed once for each number of rows.
class LeadingRows {
 public:
  /// n x m.
  explicit LeadingRows(Eigen::MatrixXd matrix);

  const Eigen::MatrixXd& matrix() const { return matrix_; }
  /// Singular values of the first `rows` rows, 1 <= rows <= n.
  const Eigen::VectorXd& values(int rows);
  /// [row]: how many singular values of rows 0 .. row are above the threshold, which is the same for all rows.
  /// Zeros if the matrix is not finite. Cost: one to n singular value decompositions.
  std::vector<int> ranks(double threshold);

 private:
  int count(int rows, double threshold);
  void fill(int low, int high, double threshold, std::vector<int>& ranks);
  Eigen::MatrixXd matrix_;
  std::vector<Eigen::VectorXd> values_;  // empty until asked for
};

/// The QR factors of a matrix that grows by a row at a time, by Givens rotations: O(n m) a row.
class GrowingQr {
 public:
  /// Of up to n rows of m columns.
  GrowingQr(Eigen::Index n, Eigen::Index m);

  /// Appends a row of m numbers.
  void append(Eigen::RowVectorXd row);
  /// Orthogonal projection of `x`, as long as the number of rows, on the column space of the rows so far, whose
  /// rank is known. O(rows m), and O(m^3) where the rank is below both numbers.
  Eigen::VectorXd project(const Eigen::VectorXd& x, int rank) const;

 private:
  Eigen::MatrixXd q_, r_;  // n x m, of which `rows_` rows count; m x m
  Eigen::Index rows_ = 0;
};

// What the output of an attention head can tell of its weights: the column space of T = V H (n x d), and that
// of [T, 1]. Weights A and A + X give the same output if and only if each row of X is orthogonal to col(T); the
// rows of X must be orthogonal to col([T, 1]) if those of A + X must keep their sum. Source: Brunner et al.,
// arXiv 1908.04211, section 3; specification of identifiability, sections 2 and 3.
//
// T = V H is not formed: with H = L Q, the smaller matrix V L (n x d_v) has its column space. Both blocks of
// [T, 1] are scaled to Frobenius norm 1, so that the threshold of the rank does not depend on units.

/// Whether the rows of a matrix are independent by the rule of `rank_threshold`. False if it is not finite.
bool has_full_row_rank(const Matrix& a);

/// L of H = L Q with orthonormal rows in Q: d_v x min(d_v, d).
Matrix output_factor(const Matrix& output);

/// n x min(d_v, d): V L from H = L Q with orthonormal rows in Q, which has T's left null space and singular values.
Matrix compact_values(const SampleHead& head);

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
  explicit ValueSpace(const SampleHead& head) : ValueSpace(compact_values(head)) {}
  /// Of any n x m matrix with T's left null space.
  explicit ValueSpace(const Matrix& values);

  const ColumnSpace& linear() const { return linear_; }    ///< col(T)
  const ColumnSpace& simplex() const { return simplex_; }  ///< col([T, 1])

 private:
  ColumnSpace linear_, simplex_;
};

}  // namespace fluxformer::identifiability
