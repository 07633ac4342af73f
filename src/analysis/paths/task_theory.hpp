#pragma once

// The theory of attention paths on one task: order parameters from the training examples, predictions for the
// test examples. Source: docs/model.md, sections 11.5 and 11.6.

#include <memory>
#include <optional>
#include <vector>

#include "analysis/paths/path_action.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_kernels.hpp"

namespace fluxformer::paths {

/// The predictor of a kernel on some examples, and how good it is.
struct PredictorResult {
  Prediction prediction;
  double accuracy = 0;        ///< share of means with the right sign
  double draw_accuracy = 0;   ///< share of single draws of the posterior with the right sign
  double bias_error = 0;      ///< mean of (mean - y)^2
  double variance_error = 0;  ///< mean variance
};

/// The predictor on the test and on the further examples of a task.
struct TaskResult {
  PredictorResult test;
  std::vector<double> further = {};  ///< accuracy on each further set
};

/// The theory, on one rank by the kernels of all pairs of paths where these are stored (PathKernels), else by
/// the examples that each rank holds (SharedData), which takes less work and memory than kernels made anew
/// each time. All functions that take U_1 are collective over the ranks that share the task.
class TaskTheory {
 public:
  /// The task is borrowed; its share is that of this rank of `comm`. Collective.
  explicit TaskTheory(const PathTask& task, MPI_Comm comm = MPI_COMM_SELF, double input_variance = 1);

  const PathTask& task() const { return task_; }
  /// The kernels, on one rank alone.
  const PathKernels& kernels() const { return kernels_.value(); }
  /// The minimum of the action. Throws BadInput or NumericalFailure (path_action.hpp).
  SaddlePoint solve(const PathNetwork& network, double temperature,
                    const saddle::MinimumRequest& request = {}) const;
  /// Virials at order parameters (path_action.hpp).
  std::vector<double> virials_at(const PathNetwork& network, double temperature,
                                 const OrderParameters& order) const;
  /// E of K(U_1).
  double energy(const Eigen::MatrixXd& u, double temperature) const;
  /// Overlaps of the targets with the components of K(U_1) (path_kernels.hpp).
  Eigen::VectorXd overlaps(const Eigen::MatrixXd& u) const;
  /// The predictor of K(U_1) on the test examples. Throws NumericalFailure if K + T I is not positive
  /// definite.
  PredictorResult evaluate(const Eigen::MatrixXd& u, double temperature) const;
  /// The predictor on test and further examples, by one factorisation.
  TaskResult evaluate_all(const Eigen::MatrixXd& u, double temperature) const;
  /// [heads silenced less 1]: accuracy after heads are silenced in U_1 in rising order of their scores. NaN
  /// once a layer has no head left: nothing is then predicted.
  std::vector<double> ablated_accuracies(const Eigen::MatrixXd& u, double temperature) const;

 private:
  const PathTask& task_;
  std::optional<PathKernels> kernels_;
  std::unique_ptr<const DataTerm> data_;
};

}  // namespace fluxformer::paths
