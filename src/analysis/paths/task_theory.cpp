#include "analysis/paths/task_theory.hpp"

#include <utility>

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/head_pruning.hpp"
#include "base/mpi.hpp"

namespace fluxformer::paths {

using Eigen::MatrixXd;

namespace {

PredictorResult result_of(Prediction prediction, const Eigen::VectorXd& targets) {
  PredictorResult judged{.prediction = std::move(prediction)};
  const auto& [mean, variance] = judged.prediction;
  judged.accuracy = accuracy(mean, targets);
  judged.draw_accuracy = draw_accuracy(judged.prediction, targets);
  // Mean of (mean - y)^2, and the variance of the posterior, mean over examples
  judged.bias_error = (mean - targets).squaredNorm() / mean.size();
  judged.variance_error = variance.mean();
  return judged;
}

}  // namespace

TaskTheory::TaskTheory(const PathTask& task, MPI_Comm comm, double input_variance) : task_(task) {
  const int paths = path_count(task.heads);
  const bool alone = mpi::size(comm) == 1;
  if (alone) kernels_.emplace(task.train.inputs, paths, input_variance);
  // One rank uses the kernels of all pairs of paths if these are stored. If not, SharedData takes less work
  // and memory than kernels made anew each time.
  if (alone && kernels_->stored())
    data_ = std::make_unique<LocalData>(*kernels_, task.train.targets);
  else
    data_ = std::make_unique<SharedData>(comm, task.train, task.share, paths, input_variance);
}

SaddlePoint TaskTheory::solve(const PathNetwork& network, double temperature,
                              const saddle::MinimumRequest& request) const {
  return saddle_point(PathAction(network, *data_, temperature), request);
}

std::vector<double> TaskTheory::virials_at(const PathNetwork& network, double temperature,
                                           const OrderParameters& order) const {
  return virials(PathAction(network, *data_, temperature), order);
}

double TaskTheory::energy(const MatrixXd& u, double temperature) const {
  return data_->energy(u, temperature);
}

Eigen::VectorXd TaskTheory::overlaps(const MatrixXd& u) const {
  return data_->overlaps(u);
}

PredictorResult TaskTheory::evaluate(const MatrixXd& u, double temperature) const {
  return result_of(std::move(data_->predict(u, temperature, {&task_.test}).front()), task_.test.targets);
}

TaskResult TaskTheory::evaluate_all(const MatrixXd& u, double temperature) const {
  std::vector<const PathExamples*> sets{&task_.test};
  for (const auto& one : task_.further) sets.push_back(&one.examples);
  auto predictions = data_->predict(u, temperature, sets);
  TaskResult all{.test = result_of(std::move(predictions.front()), task_.test.targets)};
  all.further.reserve(task_.further.size());
  for (std::size_t k = 1; k < sets.size(); ++k)
    all.further.push_back(accuracy(predictions[k].mean, sets[k]->targets));
  return all;
}

std::vector<double> TaskTheory::ablated_accuracies(const MatrixXd& u, double temperature) const {
  // The head of the least score goes first; the rest is U_1 with rows and columns of 0.
  const auto order = in_rising_order(head_scores(u, task_.heads), task_.heads);
  return accuracies_without(order, task_.heads, [&](std::span<const HeadPlace> lost) {
    MatrixXd left = u;
    for (const auto& head : lost) left = without_head(left, head, task_.heads);
    return evaluate(left, temperature).accuracy;
  });
}

}  // namespace fluxformer::paths
