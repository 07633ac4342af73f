#include "analysis/paths/path_action.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {

PathAction::PathAction(PathNetwork network, const PathKernels& kernels, Eigen::VectorXd targets,
                       double temperature)
    : network_(std::move(network)),
      kernels_(kernels),
      targets_(std::move(targets)),
      temperature_(temperature) {
  check(network_);
  if (!(temperature > 0) || !std::isfinite(temperature))
    throw BadInput("the temperature of attention paths must be positive, not " + std::to_string(temperature));
  if (network_.paths() != kernels_.paths() || targets_.size() != kernels_.examples())
    throw BadInput("attention paths: a network of " + std::to_string(network_.paths()) + " paths and " +
                   std::to_string(targets_.size()) + " targets, kernels of " +
                   std::to_string(kernels_.paths()) + " paths and " + std::to_string(kernels_.examples()) +
                   " examples");
}

ActionPart PathAction::at(const OrderParameters& order) const {
  auto part = prior_action(network_, order);
  if (!std::isfinite(part.value)) return part;
  const auto data = energy(order);
  part.value += data.value;
  if (std::isfinite(data.value)) part.slopes.front() += kernels_.contract(data.slope);
  return part;
}

double PathAction::value(const std::vector<double>& coordinates, std::vector<double>& gradient) const {
  const auto part = at(order_at(network_, coordinates));
  if (!std::isfinite(part.value)) {
    gradient.assign(coordinates.size(), 0);
    return std::numeric_limits<double>::infinity();
  }
  gradient = pulled_back(coordinates, part.slopes);
  return part.value;
}

KernelEnergy PathAction::energy(const OrderParameters& order) const {
  return kernel_energy_and_slope(kernel(order), targets_, temperature_);
}

std::vector<double> virials(const PathAction& action, const OrderParameters& order) {
  const auto& network = action.network();
  std::vector<double> all;
  all.reserve(order.u.size() + 2);
  all.push_back(network.readout_width() * (order.readout / network.readout_variance - 1));
  for (std::size_t l = 0; l < order.u.size(); ++l) {
    const auto traced = partial_trace(order.u[l], network.heads[l]);
    const double product = l + 1 < order.u.size() ? Cholesky(order.u[l + 1]).solve(traced).trace()
                                                  : traced(0, 0) / order.readout;
    all.push_back(network.widths[l] *
                  (product / network.variances[l] - static_cast<double>(order.u[l].rows())));
  }
  all.push_back(data_virial(action.energy(order), action.kernel(order)));
  return all;
}

}  // namespace fluxformer::paths
