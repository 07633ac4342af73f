#pragma once

// Dense matrices for the tests, independent of those in src/analysis. Not templates, so that they are
// compiled once: each of Eigen's decompositions takes about ten seconds to compile, each product of a new
// pair of types one.

#include <Eigen/Core>

namespace fluxformer::test {

/// A B
Eigen::MatrixXd product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);

/// In descending order. Two-sided Jacobi: errors of about 1e-16 of the largest, times a small multiple of the
/// larger dimension.
Eigen::VectorXd singular_values(const Eigen::MatrixXd& a);

/// Q of A = Q R, of a square matrix that is not singular: orthogonal to round-off.
Eigen::MatrixXd orthogonal_factor(const Eigen::MatrixXd& a);

/// The largest absolute value of an eigenvalue of a square matrix that is not nilpotent, by Gelfand's formula |A^m|^(1/m) with
/// m = 2^60: errors of some 1e-15 times the condition of that eigenvalue.
double spectral_radius(Eigen::MatrixXd a);

}  // namespace fluxformer::test
