#pragma once

// The decompositions of dense matrices that the measures need. Compiling one of Eigen's takes some ten
// seconds, so each is compiled once, here. Not collective.

#include <Eigen/Core>

namespace fluxformer {

/// By rows, as slabs are.
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A = V diag(values) V^T
struct SymmetricEigen {
  Eigen::VectorXd values;   ///< in ascending order
  Eigen::MatrixXd vectors;  ///< columns, orthonormal; empty unless asked for
  bool converged = false;
};

/// Uses the lower triangle of a square matrix with at least one row. `what`: Eigen::EigenvaluesOnly omits the
/// vectors.
SymmetricEigen symmetric_eigen(const Eigen::MatrixXd& a, int what = Eigen::ComputeEigenvectors);

/// A = U diag(values) V^T
struct LeftSvd {
  Eigen::VectorXd values;  ///< in descending order
  Eigen::MatrixXd left;    ///< columns of U
};

/// Of a square matrix, by two-sided Jacobi rotations. NaN unless all of A is finite.
LeftSvd left_svd(const Eigen::MatrixXd& a);

/// Of any matrix, in descending order; min(rows, columns) of them. By bidiagonalisation: the small ones to
/// round-off of the largest. NaN unless all of A is finite.
Eigen::VectorXd singular_values_of(const Eigen::MatrixXd& a);

/// A = Q R with as many columns in Q as in A. A has at least as many rows as columns.
struct ThinQr {
  Eigen::MatrixXd q;
  Eigen::VectorXd diagonal;  ///< of R, of either sign
};

/// By Householder reflections.
ThinQr thin_qr(const Eigen::MatrixXd& a);

/// A = L L^T, from the lower triangle of a symmetric matrix.
class Cholesky {
 public:
  /// Factorises A, O(n^3).
  explicit Cholesky(const Eigen::MatrixXd& a);

  /// Whether A is positive definite; if not, the other results have no meaning.
  bool positive() const { return positive_; }
  /// L, with zeros above its diagonal.
  Eigen::MatrixXd lower() const;
  /// ln det A = 2 sum of ln L_ii.
  double log_det() const;
  /// L^-1 b
  Eigen::VectorXd solve_lower(const Eigen::VectorXd& b) const;
  /// A^-1 B
  Eigen::MatrixXd solve(const Eigen::MatrixXd& b) const;

 private:
  Eigen::MatrixXd lower_;
  bool positive_;
};

}  // namespace fluxformer
