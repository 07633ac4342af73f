#pragma once

// Dense matrices for the tests, apart from those of src/analysis. Not templates, so that they are compiled
// once: each of Eigen's decompositions takes the compiler some ten seconds, each product of two further types
// one.

#include <Eigen/Core>

namespace fluxformer::test {

/// A B
Eigen::MatrixXd product(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);

/// Falling. Two-sided Jacobi: errors of about 1e-16 of the largest, some times the larger dimension.
Eigen::VectorXd singular_values(const Eigen::MatrixXd& a);

/// Q of A = Q R, of a square matrix that is not singular: orthogonal to round-off.
Eigen::MatrixXd orthogonal_factor(const Eigen::MatrixXd& a);

}  // namespace fluxformer::test
