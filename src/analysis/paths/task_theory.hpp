#pragma once

// The theory of attention paths on one task: order parameters from the training examples, predictions for the test
// examples. Source: specification of attention paths, sections 2.4 to 2.7.

#include <vector>

#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_predictor.hpp"
#include "analysis/paths/saddle_point.hpp"

namespace fluxformer::paths {

/// What a kernel's predictor does on the test examples.
struct Judged {
  Prediction prediction;
  double accuracy = 0;        ///< share of means with the right sign
  double draw_accuracy = 0;   ///< share of single draws of the posterior with the right sign
  double bias_error = 0;      ///< mean of (mean - y)^2
  double variance_error = 0;  ///< mean variance
};

/// Not collective. Holds the kernels of all pairs of paths (PathKernels).
class TaskTheory {
 public:
  /// The task is used, not copied.
  explicit TaskTheory(const PathTask& task, double input_variance = 1);

  const PathTask& task() const { return task_; }
  const PathKernels& kernels() const { return kernels_; }
  /// The minimum of the action. Throws BadInput or NumericalFailure (saddle_point.hpp).
  SaddlePoint solve(const PathNetwork& network, double temperature,
                    const saddle::MinimumRequest& request = {}) const;
  /// Virials at order parameters (path_action.hpp).
  std::vector<double> virials_at(const PathNetwork& network, double temperature,
                                 const OrderParameters& order) const;
  /// The predictor of K(U_1). Throws NumericalFailure if K + T I is not positive definite.
  Judged judge(const Eigen::MatrixXd& u, double temperature) const;
  /// Its accuracy on each of the task's further examples.
  std::vector<double> further_accuracies(const Eigen::MatrixXd& u, double temperature) const;
  /// Accuracy after silencing heads in U_1, one after another in rising order of their scores, a number for each head. NaN
  /// once a layer has no head left: nothing is then predicted.
  std::vector<double> ablated_accuracies(const Eigen::MatrixXd& u, double temperature) const;

 private:
  Prediction predicted(const PathExamples& examples, const Eigen::MatrixXd& u, double temperature) const;

  const PathTask& task_;
  double input_variance_;
  PathKernels kernels_;
};

}  // namespace fluxformer::paths
