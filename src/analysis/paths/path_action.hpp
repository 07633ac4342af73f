#pragma once

// The action whose minimum over the order parameters is the theory of attention paths at finite width. Source: Tiberi et al.,
// arXiv 2405.15926; specification of attention paths, sections 2.2 and 2.3.
//
//   S = E(U_1) + Lambda(U_1 .. U_L)

#include <memory>

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/prior_action.hpp"

namespace fluxformer::paths {

/// S of one network on one set of examples. Its functions are collective over the ranks that share the examples.
class PathAction {
 public:
  /// The data are used, not copied. Throws BadInput for temperatures that are not positive, and where network, kernels
  /// and targets do not fit.
  PathAction(PathNetwork network, const DataTerm& data, double temperature);
  /// Of examples on this rank; the kernels are used, not copied.
  PathAction(PathNetwork network, const PathKernels& kernels, Eigen::VectorXd targets, double temperature);

  const PathNetwork& network() const { return network_; }
  double temperature() const { return temperature_; }
  /// The ranks that share the examples.
  MPI_Comm comm() const { return data_->comm(); }

  /// S and dS/dU_l; infinite where it is not defined.
  ActionPart at(const OrderParameters& order) const;
  /// S and its gradient in the coordinates of `order_at`.
  double value(const std::vector<double>& coordinates, std::vector<double>& gradient) const;
  /// E at U_1.
  double energy(const OrderParameters& order) const;
  /// E and its slope at U_1.
  DataSlope energy_and_slope(const OrderParameters& order) const;

 private:
  PathAction(PathNetwork network, std::shared_ptr<const DataTerm> data, double temperature);

  PathNetwork network_;
  std::shared_ptr<const DataTerm> data_;
  double temperature_;
};

/// The sides of the identities of section 5.2, which are equal at the minimum: N_a (u_a/s_a^2 - 1), then N_l (tr[U_{l+1}^-1
/// tau_l(U_l)]/s_l^2 - n_l) for l = 1 .. L, then y^T A^-1 K A^-1 y - tr(A^-1 K) = - sum U_1^{pi pi'} dE/dU_1^{pi pi'}.
std::vector<double> virials(const PathAction& action, const OrderParameters& order);

}  // namespace fluxformer::paths
