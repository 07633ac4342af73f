#pragma once

// QR factors and singular values by LAPACK. The counts of identifiability need them for every head of every
// sample; for matrices of 128 x 64 numbers LAPACK is several times as fast as Eigen's own decompositions. Not
// collective.

#include <Eigen/Core>

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

}  // namespace fluxformer::identifiability
