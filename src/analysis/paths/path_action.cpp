#include "analysis/paths/path_action.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "analysis/paths/local_data.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {

PathAction::PathAction(PathNetwork network, std::shared_ptr<const DataTerm> data, double temperature)
    : network_(std::move(network)), data_(std::move(data)), temperature_(temperature) {
  check(network_);
  if (!(temperature > 0) || !std::isfinite(temperature))
    throw BadInput("the temperature of attention paths must be positive, not " + std::to_string(temperature));
  if (network_.paths() != data_->paths())
    throw BadInput("attention paths: a network of " + std::to_string(network_.paths()) +
                   " paths, kernels of " + std::to_string(data_->paths()));
}

PathAction::PathAction(PathNetwork network, const DataTerm& data, double temperature)
    : PathAction(std::move(network), std::shared_ptr<const DataTerm>(&data, [](const DataTerm*) {}),
                 temperature) {}

PathAction::PathAction(PathNetwork network, const PathKernels& kernels, Eigen::VectorXd targets,
                       double temperature)
    : PathAction(std::move(network), std::make_shared<LocalData>(kernels, std::move(targets)), temperature) {}

ActionPart PathAction::at(const OrderParameters& order) const {
  auto part = prior_action(network_, order);
  // Round-off may differ between ranks: the first one decides for all whether the data are asked.
  int defined = std::isfinite(part.value) ? 1 : 0;
  check_mpi(MPI_Bcast(&defined, 1, MPI_INT, 0, comm()));
  if (defined == 0) {
    part.value = std::numeric_limits<double>::infinity();
    return part;
  }
  const auto data = energy_and_slope(order);
  part.value += data.value;
  if (data.slope.size() > 0) part.slopes.front() += data.slope;
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

double PathAction::energy(const OrderParameters& order) const {
  return data_->energy(order.u.front(), temperature_);
}

DataSlope PathAction::energy_and_slope(const OrderParameters& order) const {
  return data_->energy_and_slope(order.u.front(), temperature_);
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
  const auto data = action.energy_and_slope(order);
  all.push_back(data.slope.size() > 0 ? -order.u.front().cwiseProduct(data.slope).sum()
                                      : std::numeric_limits<double>::quiet_NaN());
  return all;
}

}  // namespace fluxformer::paths
