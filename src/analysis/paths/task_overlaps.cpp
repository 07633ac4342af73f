#include "analysis/paths/task_overlaps.hpp"

#include <cmath>

#include "analysis/dense_matrices.hpp"

namespace fluxformer::paths {

Eigen::VectorXd task_overlaps(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets) {
  const auto components = symmetric_eigen(kernel);
  if (!components.converged) return Eigen::VectorXd::Constant(targets.size(), std::nan(""));
  const Eigen::VectorXd rising = components.vectors.transpose() * targets;
  return rising.reverse().cwiseAbs() / std::sqrt(static_cast<double>(targets.size()));
}

}  // namespace fluxformer::paths
