#pragma once

// What the prior of the weights costs: the part Lambda of the action without data. Source: specification of attention
// paths, sections 2.2 and 2.3.
//
//   Lambda = N_a (u_a/s_a^2 - ln u_a) + sum_l N_l ( tr[U_{l+1}^-1 tau_l(U_l)]/s_l^2 - ln det U_l + H_l ln det U_{l+1} ),   U_{L+1} = u_a

#include "analysis/paths/order_parameters.hpp"

namespace fluxformer::paths {

/// A part of the action and its derivatives, where all entries of U_l count as independent.
struct ActionPart {
  double value = 0;
  std::vector<Eigen::MatrixXd> slopes = {};  ///< by U_1 .. U_L, symmetric
};

/// Lambda at these order parameters, whose u_a must be that of `best_readout` for the derivatives to be right (it then has no
/// share in them). Infinite if a U_l is not positive definite. O(sum n_l^3).
ActionPart prior_action(const PathNetwork& network, const OrderParameters& order);

}  // namespace fluxformer::paths
