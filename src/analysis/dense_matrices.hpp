#pragma once

// The decompositions of dense matrices that the measures need. The compiler takes some ten seconds for each
// of Eigen's: they are compiled once, here. Not collective.

#include <Eigen/Core>

namespace fluxformer {

/// A = V diag(values) V^T
struct SymmetricEigen {
  Eigen::VectorXd values;   ///< rising
  Eigen::MatrixXd vectors;  ///< columns, orthonormal; empty if they were not asked for
  bool converged = false;
};

/// Of the lower triangle of a square matrix with at least one row. `what`: Eigen::EigenvaluesOnly leaves out
/// the vectors.
SymmetricEigen symmetric_eigen(const Eigen::MatrixXd& a, int what = Eigen::ComputeEigenvectors);

/// A = U diag(values) V^T
struct LeftSvd {
  Eigen::VectorXd values;  ///< falling
  Eigen::MatrixXd left;    ///< columns of U
};

/// Two-sided Jacobi, of a square matrix.
LeftSvd left_svd(const Eigen::MatrixXd& a);

/// A = Q R with as many columns in Q as in A, which has no fewer rows than columns.
struct ThinQr {
  Eigen::MatrixXd q;
  Eigen::VectorXd diagonal;  ///< of R, of either sign
};

ThinQr thin_qr(const Eigen::MatrixXd& a);

/// A = L L^T, of the lower triangle of a symmetric matrix.
class Cholesky {
 public:
  explicit Cholesky(const Eigen::MatrixXd& a);

  /// Without it the others have no meaning.
  bool positive() const { return positive_; }
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
