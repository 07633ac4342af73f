#include "analysis/paths/task_theory.hpp"

#include "analysis/paths/head_pruning.hpp"

namespace fluxformer::paths {

using Eigen::MatrixXd;

TaskTheory::TaskTheory(const PathTask& task, double input_variance)
    : task_(task),
      input_variance_(input_variance),
      kernels_(task.train.inputs, path_count(task.heads), input_variance) {}

SaddlePoint TaskTheory::solve(const PathNetwork& network, double temperature,
                              const saddle::MinimumRequest& request) const {
  return saddle_point(PathAction(network, kernels_, task_.train.targets, temperature), request);
}

std::vector<double> TaskTheory::virials_at(const PathNetwork& network, double temperature,
                                           const OrderParameters& order) const {
  return virials(PathAction(network, kernels_, task_.train.targets, temperature), order);
}

Prediction TaskTheory::predicted(const PathExamples& examples, const MatrixXd& u, double temperature) const {
  const auto& known = task_.train;
  return predict(kernels_.kernel(u), known.targets, temperature,
                 cross_kernel(examples.inputs, known.inputs, u, input_variance_),
                 own_kernel(examples.inputs, u, input_variance_));
}

Judged TaskTheory::judge(const MatrixXd& u, double temperature) const {
  const auto& test = task_.test;
  Judged judged{.prediction = predicted(test, u, temperature)};
  const auto& [mean, variance] = judged.prediction;
  judged.accuracy = accuracy(mean, test.targets);
  judged.draw_accuracy = draw_accuracy(judged.prediction, test.targets);
  judged.bias_error = (mean - test.targets).squaredNorm() / static_cast<double>(mean.size());
  judged.variance_error = variance.mean();
  return judged;
}

std::vector<double> TaskTheory::further_accuracies(const MatrixXd& u, double temperature) const {
  std::vector<double> accuracies;
  accuracies.reserve(task_.further.size());
  for (const auto& [name, examples] : task_.further)
    accuracies.push_back(accuracy(predicted(examples, u, temperature).mean, examples.targets));
  return accuracies;
}

std::vector<double> TaskTheory::ablated_accuracies(const MatrixXd& u, double temperature) const {
  const auto order = in_rising_order(head_scores(u, task_.heads), task_.heads);
  return accuracies_without(order, task_.heads, [&](std::span<const HeadPlace> lost) {
    MatrixXd left = u;
    for (const auto& head : lost) left = without_head(left, head, task_.heads);
    return judge(left, temperature).accuracy;
  });
}

}  // namespace fluxformer::paths
