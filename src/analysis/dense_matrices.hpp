#pragma once

// Decompositions of dense matrices that the measures need. Each of Eigen's takes some ten seconds to compile,
// so all are compiled once, here. Not collective.

#include <Eigen/Core>

namespace fluxformer {

/// Dense matrix stored by rows, as slabs are.
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Eigenvalues and eigenvectors: A = V diag(values) V^T.
struct SymmetricEigen {
  Eigen::VectorXd values;   ///< eigenvalues in ascending order
  Eigen::MatrixXd vectors;  ///< eigenvectors as orthonormal columns; empty unless asked for
  bool converged = false;
};

/// Eigenvalues of a symmetric matrix with at least one row, of which only the lower triangle is read. `what`
/// = Eigen::EigenvaluesOnly omits the eigenvectors.
SymmetricEigen symmetric_eigen(const Eigen::MatrixXd& a, int what = Eigen::ComputeEigenvectors);

/// Singular values and left singular vectors: A = U diag(values) V^T.
struct LeftSvd {
  Eigen::VectorXd values;  ///< singular values in descending order
  Eigen::MatrixXd left;    ///< columns of U
};

/// Singular values and left singular vectors of a square matrix, by two-sided Jacobi rotations. NaN unless
/// all of A is finite.
LeftSvd left_svd(const Eigen::MatrixXd& a);

/// The min(rows, columns) singular values of any matrix, in descending order, by bidiagonalisation: small
/// ones have the round-off of the largest. NaN unless all of A is finite.
Eigen::VectorXd singular_values_of(const Eigen::MatrixXd& a);

/// Largest |eigenvalue| of a square matrix; NaN unless all of A is finite.
double largest_eigenvalue(const Eigen::MatrixXd& a);

/// Thin factorisation A = Q R: Q has as many columns as A, which has at least as many rows as columns.
struct ThinQr {
  Eigen::MatrixXd q;
  Eigen::VectorXd diagonal;  ///< diagonal of R; entries have either sign
};

/// Thin QR factorisation by Householder reflections.
ThinQr thin_qr(const Eigen::MatrixXd& a);

/// Cholesky factorisation A = L L^T of a symmetric matrix, of which only the lower triangle is read.
class Cholesky {
 public:
  /// Factorises A, O(n^3).
  explicit Cholesky(const Eigen::MatrixXd& a);

  /// True if A is positive definite; if not, the other results have no meaning.
  bool positive() const { return positive_; }
  /// L, with zeros above its diagonal.
  Eigen::MatrixXd lower() const;
  /// ln det A = 2 sum of ln L_ii.
  double log_det() const;
  /// Solution of L x = b.
  Eigen::VectorXd solve_lower(const Eigen::VectorXd& b) const;
  /// Solution of A X = B.
  Eigen::MatrixXd solve(const Eigen::MatrixXd& b) const;

 private:
  Eigen::MatrixXd lower_;
  bool positive_;
};

}  // namespace fluxformer
