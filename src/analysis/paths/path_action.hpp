#pragma once

// The action whose minimum over the order parameters is the theory of attention paths at finite width, and
// that minimum. Source: Tiberi et al., arXiv 2405.15926; docs/model.md, sections 11.4 and 11.5.
//
//   S = E(U_1) + Lambda(U_1 .. U_L)                                                        U_{L+1} = u_a
//   Lambda = N_a (u_a/s_a^2 - ln u_a)
//          + sum_l N_l ( tr[U_{l+1}^-1 tau_l(U_l)]/s_l^2 - ln det U_l + H_l ln det U_{l+1} )

#include <memory>
#include <vector>

#include "analysis/paths/data_term.hpp"
#include "analysis/paths/order_parameters.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "solvers/saddle/minimise.hpp"

namespace fluxformer::paths {

/// A part of the action and its slopes, where all entries of U_l count as independent.
struct ActionPart {
  double value = 0;
  std::vector<Eigen::MatrixXd> slopes = {};  ///< derivatives by U_1 .. U_L, symmetric
};

/// Lambda, what the prior of the weights costs. The u_a must be that of `best_readout` for the slopes to be
/// right (it then has no share in them). Infinite if a U_l is not positive definite. O(sum n_l^3).
ActionPart prior_action(const PathNetwork& network, const OrderParameters& order);

/// S of one network on one set of examples. Its functions are collective over the ranks that share the
/// examples, and begin with an agreement, as those of DataTerm do.
class PathAction {
 public:
  /// The data are borrowed. Throws BadInput for temperatures that are not positive, and where network,
  /// kernels and targets do not fit.
  PathAction(PathNetwork network, const DataTerm& data, double temperature);
  /// Action for examples that all lie on this rank; the kernels are borrowed.
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

/// The sides of the virial identities (docs/model.md, section 11.5), which are equal at the minimum:
/// N_a (u_a/s_a^2 - 1), then N_l (tr[U_{l+1}^-1 tau_l(U_l)]/s_l^2 - n_l) for l = 1 .. L, then
/// y^T A^-1 K A^-1 y - tr(A^-1 K) = - sum U_1^{pi pi'} dE/dU_1^{pi pi'}.
std::vector<double> virials(const PathAction& action, const OrderParameters& order);

/// The minimum of the action: the theory's answer.
struct SaddlePoint {
  OrderParameters order = {};
  double action = 0, energy = 0;  ///< S and E
  double gradient = 0;            ///< max |dS/dx| / N in the coordinates x, N the largest width
  int iterations = 0, evaluations = 0;
};

/// Searches from the Gaussian-process point. Throws NumericalFailure where the minimum is not found.
/// Collective over the ranks that share the examples; all of them get what the first one finds.
SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request = {});
/// Searches from other coordinates.
SaddlePoint saddle_point(const PathAction& action, const saddle::MinimumRequest& request,
                         const std::vector<double>& start);

}  // namespace fluxformer::paths
