#pragma once

// The action whose minimum over the order parameters is the theory of attention paths at finite width. Source: Tiberi et al.,
// arXiv 2405.15926; specification of attention paths, sections 2.2 and 2.3.
//
//   S = E(U_1) + Lambda(U_1 .. U_L)

#include "analysis/paths/kernel_energy.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/prior_action.hpp"

namespace fluxformer::paths {

/// S of one network on one set of examples. Not collective.
class PathAction {
 public:
  /// The kernels are used, not copied. Throws BadInput for temperatures that are not positive, and where network, kernels
  /// and targets do not fit.
  PathAction(PathNetwork network, const PathKernels& kernels, Eigen::VectorXd targets, double temperature);

  const PathNetwork& network() const { return network_; }
  double temperature() const { return temperature_; }

  /// S and dS/dU_l; infinite where it is not defined.
  ActionPart at(const OrderParameters& order) const;
  /// S and its gradient in the coordinates of `order_at`.
  double value(const std::vector<double>& coordinates, std::vector<double>& gradient) const;
  /// E, its weights b and slope M at U_1.
  KernelEnergy energy(const OrderParameters& order) const;
  Eigen::MatrixXd kernel(const OrderParameters& order) const { return kernels_.kernel(order.u.front()); }

 private:
  PathNetwork network_;
  const PathKernels& kernels_;
  Eigen::VectorXd targets_;
  double temperature_;
};

/// The sides of the identities of section 5.2, which are equal at the minimum: N_a (u_a/s_a^2 - 1), then N_l (tr[U_{l+1}^-1
/// tau_l(U_l)]/s_l^2 - n_l) for l = 1 .. L, then y^T A^-1 K A^-1 y - tr(A^-1 K).
std::vector<double> virials(const PathAction& action, const OrderParameters& order);

}  // namespace fluxformer::paths
