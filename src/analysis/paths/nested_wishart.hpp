#pragma once

// The exact posterior of the order parameters at finite width, without the theory's approximation: with V_0 integrated out the
// weights enter through
//
//   u_a = s_a^2 c^2/N_a, c ~ chi(N_a);   U_L ~ W(N_L, s_L^2 u_a I/N_L);   U_l | U_{l+1} ~ W(N_l, s_l^2 I (x) U_{l+1}/N_l)
//
// with the weight exp(-E(U_1)/2) of the data. Needs N_l >= n_l. Source: specification of attention paths, section 5.4.
//
// Coordinates are those of Bartlett's factors, U = F B B^T F^T/N with F F^T = s^2 I (x) U_{l+1}, B lower triangular, B_ii ~ chi(N - i) for
// i = 0, 1, ..., B_ij ~ N(0, 1): ln c, then for l = L .. 1 the rows of B with ln B_ii on the diagonal.

#include <span>
#include <vector>

#include "analysis/paths/order_parameters.hpp"

namespace fluxformer::paths {

/// Its density and its coordinates, for a random walk. Not collective.
class NestedWishart {
 public:
  /// Throws BadInput where N_l < n_l or N_a < 1.
  explicit NestedWishart(PathNetwork network);

  /// How many there are.
  int coordinates() const;
  /// Where the order parameters are those of the prior, roughly: the modes of the factors.
  std::vector<double> start() const;
  /// Logarithm of the prior's density in these coordinates, up to a constant.
  double log_prior(std::span<const double> x) const;
  OrderParameters order(std::span<const double> x) const;

 private:
  PathNetwork network_;
};

}  // namespace fluxformer::paths
