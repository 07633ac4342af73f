#include "analysis/paths/posterior_chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_posterior.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "solvers/sampling/adaptive_metropolis.hpp"
#include "solvers/sampling/hamiltonian.hpp"

namespace fluxformer {
namespace {

Chains halves(const Chains& chains) {
  Chains split;
  split.reserve(2 * chains.size());
  for (const auto& chain : chains) {
    const Index half = std::ssize(chain) / 2;
    split.emplace_back(chain.begin(), chain.begin() + half);
    split.emplace_back(chain.end() - half, chain.end());
  }
  return split;
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / std::ssize(x);
}

/// sum_t (x_t - mean) (x_{t+lag} - mean)
double products(const std::vector<double>& x, double mean, Index lag) {
  double sum = 0;
  for (Index t = 0; t + lag < std::ssize(x); ++t) sum += (x[t] - mean) * (x[t + lag] - mean);
  return sum;
}

/// Means and variances of chains of n draws.
struct Variances {
  std::vector<double> means;
  double within = 0;  ///< W, mean of the chains' variances
  double all = 0;     ///< variance of the distribution: (n - 1)/n W + variance of the means
};

Variances variances_of(const Chains& chains) {
  Variances found;
  const double n = std::ssize(chains.front()), m = std::ssize(chains);
  found.means.reserve(chains.size());
  for (const auto& chain : chains) {
    found.means.push_back(mean_of(chain));
    found.within += products(chain, found.means.back(), 0) / (n - 1) / m;
  }
  const double between = chains.size() > 1 ? products(found.means, mean_of(found.means), 0) / (m - 1) : 0;
  found.all = (n - 1) / n * found.within + between;
  return found;
}

bool too_few(const Chains& chains) {
  return chains.empty() || chains.front().size() < 4;
}

}  // namespace

double split_r_hat(const Chains& chains) {
  if (too_few(chains)) return missing_value;
  const auto found = variances_of(halves(chains));
  if (found.all == 0) return 1;
  return std::sqrt(found.all / found.within);
}

double effective_draws(const Chains& chains) {
  if (too_few(chains)) return missing_value;
  const auto split = halves(chains);
  const auto found = variances_of(split);
  if (!(found.all > 0)) return missing_value;
  const Index n = std::ssize(split.front());
  const double count = n * std::ssize(split);
  // rho_lag = 1 - (W - covariance at this lag) / variance of the distribution, all with the denominator n.
  const auto correlation = [&](Index lag) {
    double covariance = 0;
    for (Index k = 0; k < std::ssize(split); ++k)
      covariance += products(split[k], found.means[k], lag) / count;
    const double within = found.within * (n - 1) / n;  // the chains' variances are over n - 1
    return 1 - (within - covariance) / found.all;
  };
  // Geyer: sums of two successive autocorrelations are positive and decrease; the first that is not ends the
  // sum.
  double sum = 0, before = std::numeric_limits<double>::infinity();
  for (Index lag = 0; lag + 1 < n; lag += 2) {
    const double pair = (lag == 0 ? 1 : correlation(lag)) + correlation(lag + 1);
    if (pair <= 0) break;
    before = std::min(before, pair);
    sum += before;
  }
  const double time = std::max(2 * sum - 1, 1 / std::log10(count));
  return count / time;
}

}  // namespace fluxformer

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;

/// Means and traces of the draws of a chain.
class Draws {
 public:
  Draws(const PosteriorTarget& posterior, int draws) : posterior_(posterior), share_(1.0 / draws) {
    for (auto& trace : chain_.traces) trace.reserve(draws);
    const auto& network = posterior.network;
    for (int l = 1; l <= network.layers(); ++l)
      chain_.order.u.push_back(MatrixXd::Zero(network.order_size(l), network.order_size(l)));
    chain_.input_weights =
        RowMatrix::Zero(network.paths(), posterior.examples.inputs.cols() / network.paths());
    chain_.virials.assign(network.layers() + 2, missing_value);
  }

  /// Returns (K + T I)^-1 y at this draw.
  Eigen::VectorXd add(const OrderParameters& order, double potential) {
    for (std::size_t l = 0; l < order.u.size(); ++l) chain_.order.u[l] += share_ * order.u[l];
    chain_.order.readout += share_ * order.readout;
    const auto kernel = posterior_.kernels.kernel(order.u.front());
    // E and b = A^-1 y at K(U_1); M = A^-1 - b b^T gives the virial of the data.
    auto energy = kernel_energy_and_slope(kernel, posterior_.examples.targets, posterior_.temperature);
    write(DrawnQuantity::readout, order.readout);
    write(DrawnQuantity::trace, order.u.front().trace());
    write(DrawnQuantity::energy, energy.value);
    write(DrawnQuantity::data_virial, data_virial(energy, kernel));
    write(DrawnQuantity::potential, potential);
    return std::move(energy.weights);
  }
  PosteriorChain& chain() { return chain_; }
  double share() const { return share_; }

 private:
  void write(DrawnQuantity quantity, double value) {
    chain_.traces[static_cast<std::size_t>(quantity)].push_back(value);
  }

  const PosteriorTarget& posterior_;
  double share_;
  PosteriorChain chain_;
};

}  // namespace

PosteriorChain weight_chain(const PosteriorTarget& posterior, const ChainPlan& plan) {
  PathPosterior weights(posterior.network, posterior.examples, posterior.temperature);
  Draws draws(posterior, plan.draws);
  auto& chain = draws.chain();
  std::vector<double> start(weights.weights()), gradient(weights.weights());
  const RandomStream prior(plan.seed, "prior of the weights");
  // Weights are in units of their standard deviations: the prior is N(0, 1).
  for (std::size_t k = 0; k < start.size(); ++k) start[k] = prior.normal(k);
  chain.virials.assign(chain.virials.size(), 0.0);
  const auto found = sampling::hamiltonian_chain(
      [&](std::span<const double> q, std::span<double> slope) { return weights.value(q, slope); },
      std::move(start),
      {.warm_up = plan.warm_up, .draws = plan.draws, .steps = plan.steps, .seed = plan.seed},
      [&](std::span<const double> q) {
        draws.add(weights.order(q), weights.value(q, gradient));
        chain.input_weights += draws.share() * weights.input_weights(q);
        const auto virials = weights.virials(q);
        for (std::size_t k = 0; k < chain.virials.size(); ++k) chain.virials[k] += draws.share() * virials[k];
      });
  chain.acceptance = found.acceptance;
  chain.step = found.step;
  chain.divergent = found.divergent;
  return std::move(chain);
}

PosteriorChain order_chain(const PosteriorTarget& posterior, const ChainPlan& plan) {
  const NestedWishart wishart(posterior.network);
  const auto& [network, examples, kernels, temperature] = posterior;
  const auto density = [&](std::span<const double> x) {
    // ln prior - E(U_1)/2
    const auto kernel = kernels.kernel(wishart.order(x).u.front());
    return wishart.log_prior(x) - kernel_energy(kernel, examples.targets, temperature).value / 2;
  };
  Draws draws(posterior, plan.draws);
  auto& chain = draws.chain();
  const double scale = kernel_scale(examples.inputs, network.input_variance);
  long step = 0;
  const auto found = sampling::random_walk(
      density, wishart.start(),
      {.warm_up = long{plan.warm_up} * plan.steps, .steps = long{plan.draws} * plan.steps, .seed = plan.seed},
      [&](std::span<const double> x) {
        // Neighbours in the walk are much alike: one state of every `steps` is a draw.
        if (++step % plan.steps != 0) return;
        const auto order = wishart.order(x);
        // k(x)^T b = scale sum_pi (sum_pi' U^{pi pi'} sum_mu b_mu xi^pi'_mu) . xi^pi(x)
        const auto b = draws.add(order, -density(x));
        const Eigen::VectorXd known = examples.inputs.transpose() * b;
        const Eigen::Map<const RowMatrix> by_path(known.data(), chain.input_weights.rows(),
                                                  chain.input_weights.cols());
        chain.input_weights += draws.share() * scale * order.u.front() * by_path;
      });
  chain.acceptance = found.accepted;
  chain.step = chain.divergent = missing_value;
  return std::move(chain);
}

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
  const double chains = by_chain.cols();
  Mean mean{.value = by_chain.rowwise().mean(), .error = {}};
  const MatrixXd apart = by_chain.colwise() - mean.value;
  // sqrt(sum of squared deviations/(c - 1)/c) over c chains
  mean.error = (apart.array().square().rowwise().sum() / (chains - 1) / chains).sqrt();
  return mean;
}

}  // namespace

SampledPosterior sampled_posterior(const std::vector<PosteriorChain>& chains, const RowMatrix& inputs) {
  const auto& first = chains.front().order;
  const Index count = std::ssize(chains);
  SampledPosterior all;
  for (std::size_t l = 0; l < first.u.size(); ++l) {
    // U_l of each chain in a column: the entries are means over its draws.
    MatrixXd by_chain(first.u[l].size(), count);
    for (Index k = 0; k < count; ++k) by_chain.col(k) = chains[k].order.u[l].reshaped();
    const auto mean = mean_of(by_chain);
    all.order.u.emplace_back(mean.value.reshaped(first.u[l].rows(), first.u[l].cols()));
    // Frobenius norm of the errors of all entries of U_1 over that of U_1
    if (l == 0) all.order_error = mean.error.matrix().norm() / mean.value.norm();
  }
  MatrixXd predictors(inputs.rows(), count);
  for (Index k = 0; k < count; ++k) {
    const auto& chain = chains[k];
    all.order.readout += chain.order.readout / count;
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
  const double paths = drawn.rows();
  // Correlation of the two predictors over examples: deviations a and b from their means
  const ArrayXd a = sampled.mean.array() - sampled.mean.mean(), b = mean.array() - mean.mean();
  TheoryError error{.order = (drawn - u).norm() / drawn.norm(),
                    .mean = (sampled.mean - mean).cwiseAbs().mean(),
                    .correlation = (a * b).sum() / std::sqrt(a.square().sum() * b.square().sum())};
  // |U - theory|/|U| less Hs/(2 N) + 4 Monte-Carlo errors
  error.excess = paths > width ? std::nan("") : error.order - (paths / (2 * width) + 4 * sampled.order_error);
  return error;
}

}  // namespace fluxformer::paths
