#pragma once

// The predictor in the limit of infinite width, written out: K = (1/(D paths)) sum over paths of xi . xi.

#include <Eigen/Core>

#include "analysis/dense_matrices.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths::test {

struct PlainGp {
  double accuracy;  ///< fraction of the test examples
  double energy;    ///< ln det(K + T I) + y^T (K + T I)^-1 y
};

/// `temperature`: variance of the noise on targets.
inline PlainGp plain_gp(const PathTask& task, double temperature) {
  const auto &train = task.train, &examples = task.test;
  const double scale = 1.0 / (task.dimension * path_count(task.heads));
  Eigen::MatrixXd k = scale * train.inputs * train.inputs.transpose();
  k.diagonal().array() += temperature;
  const Cholesky factor(k);
  const Eigen::VectorXd b = factor.solve(train.targets);
  const Eigen::VectorXd mean = scale * examples.inputs * (train.inputs.transpose() * b);
  const auto right = (mean.array() * examples.targets.array() > 0).count();
  return {.accuracy = static_cast<double>(right) / static_cast<double>(mean.size()),
          .energy = factor.log_det() + train.targets.dot(b)};
}

}  // namespace fluxformer::paths::test
