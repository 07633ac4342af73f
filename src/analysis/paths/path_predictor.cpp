#include "analysis/paths/path_predictor.hpp"

#include <cmath>

namespace fluxformer::paths {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

NumericalFailure not_positive() {
  return NumericalFailure("the kernel of attention paths is not positive definite");
}

Predictor::Predictor(MatrixXd kernel, const VectorXd& targets, double temperature)
    : targets_(targets), factor_((kernel.diagonal().array() += temperature, kernel)) {
  if (!factor_.positive()) throw not_positive();
}

Prediction Predictor::operator()(const MatrixXd& cross, const VectorXd& own) const {
  const MatrixXd solved = factor_.solve(cross.transpose());  // P x Q
  return {.mean = solved.transpose() * targets_,
          .variance = own - cross.cwiseProduct(solved.transpose()).rowwise().sum()};
}

Prediction predict(const MatrixXd& kernel, const VectorXd& targets, double temperature, const MatrixXd& cross,
                   const VectorXd& own) {
  return Predictor(kernel, targets, temperature)(cross, own);
}

double accuracy(const VectorXd& mean, const VectorXd& targets) {
  return (mean.array() * targets.array() > 0).cast<double>().mean();
}

double draw_accuracy(const Prediction& prediction, const VectorXd& targets) {
  double sum = 0;
  for (Index i = 0; i < targets.size(); ++i) {
    const double right = targets[i] * prediction.mean[i], variance = prediction.variance[i];
    // Phi(z) = erfc(-z / sqrt(2)) / 2; round-off may leave a variance of 0 slightly negative.
    sum += variance > 0 ? std::erfc(-right / std::sqrt(2 * variance)) / 2 : static_cast<double>(right > 0);
  }
  return sum / static_cast<double>(targets.size());
}

}  // namespace fluxformer::paths
