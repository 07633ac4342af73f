#include "analysis/paths/posterior_chain.hpp"

#include "analysis/paths/kernel_energy.hpp"
#include "analysis/paths/nested_wishart.hpp"
#include "analysis/paths/path_posterior.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "solvers/sampling/adaptive_metropolis.hpp"
#include "solvers/sampling/hamiltonian.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

/// Adds up draws.
class Draws {
 public:
  Draws(const PosteriorOf& posterior, int draws) : posterior_(posterior), share_(1.0 / draws) {
    for (auto& trace : chain_.traces) trace.reserve(draws);
    const auto& network = posterior.network;
    for (int l = 1; l <= network.layers(); ++l)
      chain_.order.u.push_back(MatrixXd::Zero(network.order_size(l), network.order_size(l)));
    chain_.input_weights =
        RowMatrix::Zero(network.paths(), posterior.examples.inputs.cols() / network.paths());
    chain_.virials.assign(static_cast<std::size_t>(network.layers()) + 2, missing_value);
  }

  /// Returns (K + T I)^-1 y at this draw.
  Eigen::VectorXd add(const OrderParameters& order, double potential) {
    for (std::size_t l = 0; l < order.u.size(); ++l) chain_.order.u[l] += share_ * order.u[l];
    chain_.order.readout += share_ * order.readout;
    const auto kernel = posterior_.kernels.kernel(order.u.front());
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
  void write(DrawnQuantity quantity, double value) { chain_.traces[quantity].push_back(value); }

  const PosteriorOf& posterior_;
  double share_;
  PosteriorChain chain_;
};

}  // namespace

PosteriorChain weight_chain(const PosteriorOf& posterior, const ChainPlan& plan) {
  PathPosterior weights(posterior.network, posterior.examples, posterior.temperature);
  Draws draws(posterior, plan.draws);
  auto& chain = draws.chain();
  std::vector<double> start(weights.weights()), gradient(weights.weights());
  const RandomStream prior(plan.seed, "prior of the weights");
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
  chain.divergent = static_cast<double>(found.divergent);
  return std::move(chain);
}

PosteriorChain order_chain(const PosteriorOf& posterior, const ChainPlan& plan) {
  const NestedWishart wishart(posterior.network);
  const auto& [network, examples, kernels, temperature] = posterior;
  const auto density = [&](std::span<const double> x) {
    const auto kernel = kernels.kernel(wishart.order(x).u.front());
    return wishart.log_prior(x) - kernel_energy(kernel, examples.targets, temperature).value / 2;
  };
  Draws draws(posterior, plan.draws);
  auto& chain = draws.chain();
  const double scale = kernel_scale(examples.inputs, network.input_variance);
  long step = 0;
  const auto found =
      sampling::random_walk(density, wishart.start(),
                            {.warm_up = static_cast<long>(plan.warm_up) * plan.steps,
                             .steps = static_cast<long>(plan.draws) * plan.steps,
                             .seed = plan.seed},
                            [&](std::span<const double> x) {
                              if (++step % plan.steps != 0) return;
                              const auto order = wishart.order(x);
                              // k(x)^T b = scale sum_pi (sum_pi' U^{pi pi'} sum_mu b_mu xi^pi'_mu) . xi^pi(x)
                              const auto b = draws.add(order, -density(x));
                              const Eigen::VectorXd known = examples.inputs.transpose() * b;
                              const Eigen::Map<const RowMatrix> by_path(
                                  known.data(), chain.input_weights.rows(), chain.input_weights.cols());
                              chain.input_weights += draws.share() * scale * order.u.front() * by_path;
                            });
  chain.acceptance = found.accepted;
  chain.step = chain.divergent = missing_value;
  return std::move(chain);
}

}  // namespace fluxformer::paths
