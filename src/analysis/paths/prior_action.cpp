#include "analysis/paths/prior_action.hpp"

#include <cmath>
#include <limits>

#include "analysis/dense_matrices.hpp"

namespace fluxformer::paths {

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
    const MatrixXd inverse = factor.solve(MatrixXd::Identity(u.rows(), u.cols())),
                   traced = partial_trace(u, network.heads[l]);
    const double width = network.widths[l], variance = network.variances[l], log_det = factor.log_det();
    part.value +=
        width * (above.cwiseProduct(traced).sum() / variance - log_det + network.heads[l] * log_det_above);
    part.slopes[l] = width * (repeated(above, network.heads[l]) / variance - inverse);
    if (l + 1 < layers)  // this layer's share in the slope of the one above
      part.slopes[l + 1] += width * (network.heads[l] * above - above * traced * above / variance);
    above = inverse;
    log_det_above = log_det;
  }
  return part;
}

}  // namespace fluxformer::paths
