#include "analysis/paths/local_data.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "analysis/paths/kernel_energy.hpp"
#include "analysis/paths/task_overlaps.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {

using Eigen::MatrixXd;
using Eigen::VectorXd;

LocalData::LocalData(const PathKernels& kernels, VectorXd targets)
    : kernels_(kernels), targets_(std::move(targets)) {
  if (targets_.size() != kernels_.examples())
    throw BadInput("attention paths: " + std::to_string(targets_.size()) + " targets, kernels of " +
                   std::to_string(kernels_.examples()) + " examples");
}

double LocalData::energy(const MatrixXd& u, double temperature) const {
  return kernel_energy(kernels_.kernel(u), targets_, temperature).value;
}

DataSlope LocalData::energy_and_slope(const MatrixXd& u, double temperature) const {
  const auto energy = kernel_energy_and_slope(kernels_.kernel(u), targets_, temperature);
  if (!std::isfinite(energy.value)) return {.value = energy.value};
  return {.value = energy.value, .slope = kernels_.contract(energy.slope)};
}

std::vector<Prediction> LocalData::predict(const MatrixXd& u, double temperature,
                                           const std::vector<const PathExamples*>& sets) const {
  const Predictor predictor(kernels_.kernel(u), targets_, temperature);
  std::vector<Prediction> all;
  all.reserve(sets.size());
  for (const auto* examples : sets)
    all.push_back(predictor(cross_kernel(examples->inputs, kernels_.inputs(), u, kernels_.input_variance()),
                            own_kernel(examples->inputs, u, kernels_.input_variance())));
  return all;
}

VectorXd LocalData::overlaps(const MatrixXd& u) const {
  return task_overlaps(kernels_.kernel(u), targets_);
}

}  // namespace fluxformer::paths
