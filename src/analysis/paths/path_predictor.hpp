#pragma once

// What a network of attention paths predicts for other examples. Source: specification of attention paths, section 2.5.
//
//   mean(x) = k^T (K + T I)^-1 y        var(x) = k(x, x) - k^T (K + T I)^-1 k

#include <Eigen/Core>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {

/// By examples.
struct Prediction {
  Eigen::VectorXd mean = {}, variance = {};  ///< of each example; the noise T is not added to the variance
};

/// For any number of sets of other examples.
class Predictor {
 public:
  /// From K (P x P) and y of the examples that are known. Throws NumericalFailure if K + T I is not positive definite. O(P^3).
  Predictor(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets, double temperature);
  /// From k (Q x P) and k(x, x) (Q) of other examples. O(Q P^2).
  Prediction operator()(const Eigen::MatrixXd& cross, const Eigen::VectorXd& own) const;

 private:
  const Eigen::VectorXd& targets_;
  Cholesky factor_;
};

/// What is thrown where K + T I is not positive definite.
NumericalFailure not_positive();

/// The same for one set.
Prediction predict(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets, double temperature,
                   const Eigen::MatrixXd& cross, const Eigen::VectorXd& own);

/// Share of examples whose mean has the sign of the target; a mean of 0 is wrong.
double accuracy(const Eigen::VectorXd& mean, const Eigen::VectorXd& targets);

/// Probability that one draw of the posterior is right, mean over examples of Phi(y mean / sqrt(var)); where the variance is
/// 0, whether the mean is right.
double draw_accuracy(const Prediction& prediction, const Eigen::VectorXd& targets);

}  // namespace fluxformer::paths
