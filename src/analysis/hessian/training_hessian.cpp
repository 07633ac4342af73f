#include "analysis/hessian/training_hessian.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "training/smoothness.hpp"

namespace fluxformer::hessian {

TrainingHessian::TrainingHessian(const Parameters& parameters, SlabContext& context, const DepthCells& depth,
                                 double speed, const SampleSet& samples, const Objective& objective)
    : parameters_(parameters),
      comm_(samples.comm()),
      line_(context.line->comm()),
      objective_(objective),
      trainable_(parameters, objective.coefficients),
      hessian_(parameters, context, depth, speed, objective.loss),
      gradient_(parameters.values.size(), 0.0) {
  Evaluation own;
  samples.for_batches([&](const Batch& batch) {
    const auto one = hessian_.linearise(batch, gradient_);
    own.loss += one.loss;
    own.correct += one.correct;
  });
  if (context.line->rank() != 0) own = {};  // the ranks of a token line hold the same numbers
  double sums[2] = {own.loss, own.correct};
  sum_over_ranks(sums, comm_);
  evaluation_.loss = sums[0];
  evaluation_.correct = sums[1];
  sum_over_ranks(gradient_, comm_);
  add_smoothness(parameters.spec, parameters, objective.smoothness, gradient_);
  const auto curvature = trainable_.curvature(parameters.values, gradient_);
  for (const auto j : trainable_.special()) curvature_.push_back(curvature[j]);
  trainable_.pull(parameters.values, gradient_);
  kept_bytes_ = hessian_.kept_bytes();
  largest_over_ranks({&kept_bytes_, 1}, comm_);
}

// H v = D (H_theta + d2P/dtheta2) D v + (d2 theta / d r2) (g_theta + dP/dtheta) v,  H_o v = D H_o,theta D v
void TrainingHessian::multiply(Curvature part, std::span<double> v, std::span<double> product) {
  const auto& special = trainable_.special();
  std::vector<double> before(special.size());
  std::ranges::transform(special, before.begin(), [&](auto j) { return v[j]; });
  const auto restore = [&] {
    for (std::size_t k = 0; k < special.size(); ++k) v[special[k]] = before[k];
  };
  trainable_.pull(parameters_.values, v);  // D v; D is diagonal, and 1 but for the special entries
  try {
    collectively(comm_, [&] { hessian_.multiply(part, v, product); });
  } catch (const Error&) {
    restore();
    throw;
  }
  sum_over_ranks(product, comm_);
  // P is quadratic: its gradient at D v is (d2P/dtheta2) D v.
  if (part == Curvature::hessian)
    add_smoothness(parameters_.spec, {parameters_.layout, v}, objective_.smoothness, product);
  trainable_.pull(parameters_.values, product);
  restore();
  if (part == Curvature::hessian)
    for (std::size_t k = 0; k < special.size(); ++k) product[special[k]] += curvature_[k] * before[k];
}

void TrainingHessian::for_output_gradients(const std::function<void(std::span<const double>)>& visit) {
  std::vector<double> row(size());
  collectively(comm_, [&] {
    hessian_.for_output_gradients(row, [&] {
      sum_over_ranks(row, line_);
      trainable_.pull(parameters_.values, row);  // D J^T b
      visit(row);
    });
  });
}

}  // namespace fluxformer::hessian
