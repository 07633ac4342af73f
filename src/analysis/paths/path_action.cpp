#include "analysis/paths/path_action.hpp"

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "analysis/paths/data_term.hpp"
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
  ActionPart part;
  collectively(comm(), [&] { part = prior_action(network_, order); });
  // Round-off may differ between ranks: the first one decides for all whether the data are asked.
  int defined = std::isfinite(part.value) ? 1 : 0;
  check_mpi(MPI_Bcast(&defined, 1, MPI_INT, 0, comm()));
  if (defined == 0) {
    part.value = std::numeric_limits<double>::infinity();
    return part;
  }
  const auto data = energy_and_slope(order);
  // S = Lambda + E; only U_1 enters E.
  part.value += data.value;
  if (data.slope.size() > 0) part.slopes.front() += data.slope;
  return part;
}

double PathAction::value(const std::vector<double>& coordinates, std::vector<double>& gradient) const {
  const auto part = at(order_at(network_, coordinates));
  const bool finite = std::isfinite(part.value);
  collectively(comm(), [&] {
    if (!finite)
      gradient.assign(coordinates.size(), 0);
    else  // u_a has no share: it is the best one at every U_L.
      gradient = pulled_back(coordinates, part.slopes);
  });
  return finite ? part.value : std::numeric_limits<double>::infinity();
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
  // N_a (u_a/s_a^2 - 1)
  all.push_back(network.readout_width() * (order.readout / network.readout_variance - 1));
  for (std::size_t l = 0; l < order.u.size(); ++l) {
    // N_l (tr[U_{l+1}^-1 tau_l(U_l)]/s_l^2 - n_l)
    const auto traced = partial_trace(order.u[l], network.heads[l]);
    const double product = l + 1 < order.u.size() ? Cholesky(order.u[l + 1]).solve(traced).trace()
                                                  : traced(0, 0) / order.readout;
    all.push_back(network.widths[l] * (product / network.variances[l] - order.u[l].rows()));
  }
  const auto data = action.energy_and_slope(order);
  // - sum U_1 dE/dU_1
  all.push_back(data.slope.size() > 0 ? -order.u.front().cwiseProduct(data.slope).sum()
                                      : std::numeric_limits<double>::quiet_NaN());
  return all;
}

using Eigen::MatrixXd;

ActionPart prior_action(const PathNetwork& network, const OrderParameters& order) {
  const std::size_t layers = order.u.size();
  const double u_a = order.readout;
  // U_{l+1}^-1 and ln det U_{l+1} of what stands above layer l, beginning with u_a.
  MatrixXd above = MatrixXd::Constant(1, 1, 1 / u_a);
  double log_det_above = std::log(u_a);
  ActionPart part{.value = network.readout_width() * (u_a / network.readout_variance - log_det_above),
                  .slopes = std::vector<MatrixXd>(layers)};
  for (std::size_t l = layers; l-- > 0;) {
    const MatrixXd& u = order.u[l];
    const Cholesky factor(u);
    if (!factor.positive()) {
      part.value = std::numeric_limits<double>::infinity();
      return part;
    }
    // U_l^-1 and tau_l(U_l)
    MatrixXd inverse = factor.solve(MatrixXd::Identity(u.rows(), u.cols()));
    const MatrixXd traced = partial_trace(u, network.heads[l]);
    const double width = network.widths[l], variance = network.variances[l], log_det = factor.log_det();
    // N_l (tr[U_{l+1}^-1 tau_l(U_l)]/s_l^2 - ln det U_l + H_l ln det U_{l+1})
    part.value +=
        width * (above.cwiseProduct(traced).sum() / variance - log_det + network.heads[l] * log_det_above);
    // N_l (I (x) U_{l+1}^-1/s_l^2 - U_l^-1)
    part.slopes[l] = width * (repeated(above, network.heads[l]) / variance - inverse);
    // N_l (H_l U_{l+1}^-1 - U_{l+1}^-1 tau_l(U_l) U_{l+1}^-1/s_l^2)
    if (l + 1 < layers)  // this layer's share in the slope of the one above
      part.slopes[l + 1] += width * (network.heads[l] * above - above * traced * above / variance);
    above = std::move(inverse);
    log_det_above = log_det;
  }
  return part;
}

SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request) {
  return saddle_point(action, request, coordinates_of(gaussian_process_point(action.network())));
}

SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request,
                         const std::vector<double>& start) {
  auto scaled = request;
  // S is of the order of N: its gradient is measured in units of N.
  scaled.scale = action.network().largest_width();
  const auto least = saddle::minimise_together(
      action.comm(),
      [&](const std::vector<double>& x, std::vector<double>& gradient) { return action.value(x, gradient); },
      start, scaled);
  if (!least.converged) {
    std::ostringstream text;
    text << "the action of attention paths (widths up to " << scaled.scale << ", T = " << action.temperature()
         << ')';
    if (std::isfinite(least.value))
      text << " has no minimum that was found in " << least.iterations << " iterations: its gradient is "
           << least.gradient << " times the width";
    else
      text << " is not a number: the kernel is not positive definite";
    throw NumericalFailure(text.str());
  }
  auto order = order_at(action.network(), least.x);
  const double energy = action.energy(order);
  return {.order = std::move(order),
          .action = least.value,
          .energy = energy,
          .gradient = least.gradient,
          .iterations = least.iterations,
          .evaluations = least.evaluations};
}

}  // namespace fluxformer::paths
