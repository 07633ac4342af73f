#pragma once

// Where the labels stand in the principal components of a kernel. Source: specification of attention paths, section 2.7.

#include <Eigen/Core>

namespace fluxformer::paths {

/// |v_k . y|/sqrt(P) for the eigenvectors v_k of a symmetric P x P matrix, that of the largest eigenvalue first; for targets +1
/// and -1 the squares add up to 1. O(P^3). NaN if the eigenvectors are not found.
Eigen::VectorXd task_overlaps(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets);

}  // namespace fluxformer::paths
