#pragma once

// Column spaces and ranks: what the output of an attention head can tell of its weights. Weights A and A + X
// give the same output if and only if each row of X is orthogonal to col(T), T = V H (n x d); the rows of X
// must be orthogonal to col([T, 1]) if those of A + X must keep their sum. Source: Brunner et al., arXiv
// 1908.04211, section 3; docs/model.md, section 10.1. Not collective.
//
// T = V H is not formed: with H = L Q, the smaller matrix V L (n x d_v) has its column space. Both blocks of
// [T, 1] are scaled to Frobenius norm 1, so that the threshold of the rank does not depend on units.
//
// QR factors and singular values come from LAPACK: the counts of identifiability need them for every head of
// every sample, and for matrices of 128 x 64 numbers LAPACK is several times as fast as Eigen's own
// decompositions.

#include <Eigen/Core>
#include <vector>

#include "analysis/identifiability/sample_head.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {

/// A = Q R of an n x m matrix, k = min(n, m).
struct QrFactors {
  Eigen::MatrixXd q;  ///< n x k, orthonormal columns; the first j span the first j columns of A, if j <= k
  Eigen::MatrixXd r;  ///< k x m, zero below the diagonal
};

/// Q and R by Householder reflections, O(n m k).
QrFactors qr_factors(Eigen::MatrixXd a);
/// R alone.
Eigen::MatrixXd upper_factor(Eigen::MatrixXd a);

/// A = U diag(values) Z^T of an n x m matrix, k = min(n, m); Z is left out.
struct ThinSvd {
  Eigen::VectorXd values;  ///< k, in descending order
  Eigen::MatrixXd left;    ///< U, n x k
};

/// Singular values and U. Errors are about 1e-16 of the largest value. NaN unless all of A is finite, and if
/// LAPACK does not converge.
ThinSvd thin_svd(Eigen::MatrixXd a);

/// The min(n, m) singular values in descending order; NaN as in `thin_svd`.
Eigen::VectorXd singular_values(Eigen::MatrixXd a);

/// A count of singular values above a threshold, and how far it is from the next one.
struct NumericalRank {
  Index rank = 0;
  /// The smallest value that counts over the largest that does not; where none is left, over the threshold.
  /// Infinite for a matrix of zeros and where the next value is 0. NaN for values that are not finite.
  double margin = 0;

  /// False where the margin is below 100: then the rank is a matter of the threshold.
  bool certain() const { return margin >= 100; }
};

/// s_max * max(rows, columns) * 2^-52, for singular values in descending order; 0 if there are none.
double rank_threshold(const Eigen::VectorXd& values, Index rows, Index columns);

/// Number of values, in descending order, above the threshold; 0 if they are not finite.
NumericalRank numerical_rank(const Eigen::VectorXd& values, double threshold);

/// Ranks of the first 1, 2, ... n rows of a matrix: what the tokens of a causal head see. A further row
/// increases the number of singular values above a fixed threshold by 0 or 1 (interlacing), so that two
/// counts often fix all those in between, and bisection finds the others. Singular values are computed once
/// for each number of rows. Source: Golub and Van Loan, Matrix Computations, theorem 8.1.7.
class LeadingRows {
 public:
  /// Takes an n x m matrix.
  explicit LeadingRows(Eigen::MatrixXd matrix);

  const Eigen::MatrixXd& matrix() const { return matrix_; }
  /// Singular values of the first `rows` rows, 1 <= rows <= n.
  const Eigen::VectorXd& values(int rows);
  /// [row]: number of singular values of rows 0 .. row above the threshold, which is the same for all rows.
  /// Zeros if the matrix is not finite. Cost: one to n singular value decompositions.
  std::vector<int> ranks(double threshold);

 private:
  int count(int rows, double threshold);
  void fill(int low, int high, double threshold, std::vector<int>& ranks);
  Eigen::MatrixXd matrix_;
  std::vector<Eigen::VectorXd> values_;  ///< [rows]; empty until asked for
};

/// The QR factors of a matrix that grows by a row at a time, by Givens rotations: O(n m) a row. Source: Golub
/// and Van Loan, section 6.5.
class GrowingQr {
 public:
  /// Makes room for n rows of m columns.
  GrowingQr(Index n, Index m);

  /// Appends a row of m numbers.
  void append(Eigen::RowVectorXd row);
  /// Orthogonal projection of `x`, as long as the number of rows, on the column space of the rows so far,
  /// whose rank is known. O(rows m), and O(m^3) where the rank is below both numbers.
  Eigen::VectorXd project(const Eigen::VectorXd& x, int rank) const;

 private:
  Eigen::MatrixXd q_, r_;  ///< n x m, of which `rows_` rows count; m x m
  Index rows_ = 0;
};

/// True if the rows of a matrix are independent by the rule of `rank_threshold`. False if it is not finite.
bool has_full_row_rank(const Matrix& a);

/// L of H = L Q with orthonormal rows in Q: d_v x min(d_v, d).
Matrix output_factor(const Matrix& output);

/// V L (n x min(d_v, d)), which has T's left null space and singular values.
Matrix compact_values(const SampleHead& head);

/// [T, 1] with both blocks scaled to norm 1, n x (m + 1) from n x m; a block of zeros stays as it is.
Eigen::MatrixXd with_ones(const Matrix& values);

/// The column space of a matrix of n rows.
struct ColumnSpace {
  Eigen::VectorXd values;  ///< singular values of the matrix, in descending order
  NumericalRank rank;
  Eigen::MatrixXd basis;  ///< n x rank, orthonormal columns

  /// True if nothing is orthogonal to it.
  bool everything() const { return rank.rank == basis.rows(); }
  /// Each row of X (any number of rows, n columns) replaced by its orthogonal projection; X itself if
  /// `everything`. NaN if the matrix was not finite. O(rows n rank).
  Matrix project(const Matrix& x) const;
  /// X less its projection; exactly 0 if `everything`.
  Matrix remove(const Matrix& x) const;
};

/// The column space of A, by QR and singular values of the small factor; singular vectors only where the rank
/// is not full.
ColumnSpace column_space(const Eigen::MatrixXd& a);

/// Both column spaces of a head, from one QR factorisation. The mask of the head does not matter: all rows
/// are used.
class ValueSpace {
 public:
  /// The spaces of T = values * output.
  explicit ValueSpace(const SampleHead& head) : ValueSpace(compact_values(head)) {}
  /// The spaces of any n x m matrix with T's left null space.
  explicit ValueSpace(const Matrix& values);

  const ColumnSpace& linear() const { return linear_; }    ///< col(T)
  const ColumnSpace& simplex() const { return simplex_; }  ///< col([T, 1])

 private:
  ColumnSpace linear_, simplex_;
};

}  // namespace fluxformer::identifiability
