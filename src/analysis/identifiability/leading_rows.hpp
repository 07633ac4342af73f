#pragma once

// Ranks and column spaces of the first 1, 2, ... n rows of a matrix: what the tokens of a causal head see. A
// further row increases the number of singular values above a fixed threshold by 0 or 1 (interlacing), so that
// two counts often fix all those in between, and bisection finds the others. Source: specification of
// identifiability, section 2; Golub and Van Loan, Matrix Computations, theorem 8.1.7 and section 6.5.

#include <Eigen/Core>
#include <vector>

namespace fluxformer::identifiability {

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

}  // namespace fluxformer::identifiability
