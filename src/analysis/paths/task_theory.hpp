#pragma once

// The theory of attention paths on one task: order parameters from the training examples, predictions for the test
// examples. Source: specification of attention paths, sections 2.4 to 2.7.

#include <memory>
#include <optional>
#include <vector>

#include "analysis/paths/path_action.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"

namespace fluxformer::paths {

/// What a kernel's predictor does on the test examples.
struct PredictorResult {
  Prediction prediction;
  double accuracy = 0;        ///< share of means with the right sign
  double draw_accuracy = 0;   ///< share of single draws of the posterior with the right sign
  double bias_error = 0;      ///< mean of (mean - y)^2
  double variance_error = 0;  ///< mean variance
};

/// The test and the further examples of a task.
struct TaskResult {
  PredictorResult test;
  std::vector<double> further = {};  ///< accuracies
};

/// On one rank by the kernels of all pairs of paths where these are stored (PathKernels), else by those of their examples (SharedData), which
/// takes less work and memory than kernels made anew each time. All functions that take U_1 are collective over these ranks.
class TaskTheory {
 public:
  /// The task is used, not copied; its share is that of this rank of `comm`. Collective.
  explicit TaskTheory(const PathTask& task, MPI_Comm comm = MPI_COMM_SELF, double input_variance = 1);

  const PathTask& task() const { return task_; }
  /// Of one rank alone.
  const PathKernels& kernels() const { return kernels_.value(); }
  /// The minimum of the action. Throws BadInput or NumericalFailure (saddle_point.hpp).
  SaddlePoint solve(const PathNetwork& network, double temperature,
                    const saddle::MinimumRequest& request = {}) const;
  /// Virials at order parameters (path_action.hpp).
  std::vector<double> virials_at(const PathNetwork& network, double temperature,
                                 const OrderParameters& order) const;
  /// E of K(U_1).
  double energy(const Eigen::MatrixXd& u, double temperature) const;
  /// Overlaps of the targets with the components of K(U_1) (task_overlaps.hpp).
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const;
  /// The predictor of K(U_1) on the test examples. Throws NumericalFailure if K + T I is not positive definite.
  PredictorResult evaluate(const Eigen::MatrixXd& u, double temperature) const;
  /// On the further ones, too, by one factorisation.
  TaskResult evaluate_all(const Eigen::MatrixXd& u, double temperature) const;
  /// Accuracy after silencing heads in U_1, one after another in rising order of their scores, a number for each head. NaN
  /// once a layer has no head left: nothing is then predicted.
  std::vector<double> ablated_accuracies(const Eigen::MatrixXd& u, double temperature) const;

 private:
  const PathTask& task_;
  std::optional<PathKernels> kernels_;
  std::unique_ptr<const DataTerm> data_;
};

}  // namespace fluxformer::paths
