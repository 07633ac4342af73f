#include "analysis/paths/sampled_posterior.hpp"

#include <cmath>

#include "analysis/chain_diagnostics.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::ArrayXd;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// The mean over chains and the standard error of each of its entries; NaN for one chain.
struct Mean {
  VectorXd value;
  ArrayXd error;
};
Mean mean_of(const MatrixXd& by_chain) {  // columns are chains
  const auto chains = static_cast<double>(by_chain.cols());
  Mean mean{.value = by_chain.rowwise().mean(), .error = {}};
  const MatrixXd apart = by_chain.colwise() - mean.value;
  mean.error = (apart.array().square().rowwise().sum() / (chains - 1) / chains).sqrt();
  return mean;
}

}  // namespace

SampledPosterior sampled_posterior(const std::vector<PosteriorChain>& chains, const RowMatrix& inputs) {
  const auto& first = chains.front().order;
  const auto count = static_cast<Eigen::Index>(chains.size());
  SampledPosterior all;
  for (std::size_t l = 0; l < first.u.size(); ++l) {
    MatrixXd by_chain(first.u[l].size(), count);
    for (Eigen::Index k = 0; k < count; ++k) by_chain.col(k) = chains[k].order.u[l].reshaped();
    const auto mean = mean_of(by_chain);
    all.order.u.emplace_back(mean.value.reshaped(first.u[l].rows(), first.u[l].cols()));
    if (l == 0) all.order_error = mean.error.matrix().norm() / mean.value.norm();
  }
  MatrixXd predictors(inputs.rows(), count);
  for (Eigen::Index k = 0; k < count; ++k) {
    const auto& chain = chains[k];
    all.order.readout += chain.order.readout / static_cast<double>(count);
    predictors.col(k) = outputs(inputs, chain.input_weights);
  }
  auto predictor = mean_of(predictors);
  all.mean = std::move(predictor.value);
  all.mean_error = predictor.error.mean();
  for (std::size_t q = 0; q < drawn_quantities; ++q) {
    Chains traces;
    traces.reserve(chains.size());
    for (const auto& chain : chains) traces.push_back(chain.traces[q]);
    all.r_hat[q] = split_r_hat(traces);
    all.effective_draws[q] = fluxformer::effective_draws(traces);
  }
  return all;
}

TheoryError theory_error(const SampledPosterior& sampled, const MatrixXd& u, const VectorXd& mean,
                         double width) {
  const auto& drawn = sampled.order.u.front();
  const auto paths = static_cast<double>(drawn.rows());
  const ArrayXd a = sampled.mean.array() - sampled.mean.mean(), b = mean.array() - mean.mean();
  TheoryError error{.order = (drawn - u).norm() / drawn.norm(),
                    .mean = (sampled.mean - mean).cwiseAbs().mean(),
                    .correlation = (a * b).sum() / std::sqrt(a.square().sum() * b.square().sum())};
  error.excess = paths > width ? std::nan("") : error.order - (paths / (2 * width) + 4 * sampled.order_error);
  return error;
}

}  // namespace fluxformer::paths
