#pragma once

// Largest stable steps of the integrators for equation (1).

#include <petscts.h>

#include "model/equation.hpp"

namespace fluxformer {

/// The stability limits of a method: it is stable while dt (transport rate / `transport` + diffusion rate /
/// `diffusion`) <= 1, with the StepRates of the terms that it treats explicitly.
struct MethodLimits {
  double transport = 1;
  double diffusion = 1;
  bool implicit_terms = false;  ///< terms that are an ImplicitTerm are treated implicitly
};

/// The limits of a TS whose type and options are set. SSP methods: their coefficient (s - 1 for rks2, n^2 - n
/// for rks3 with n^2 stages, 6 for rk104; Ketcheson 2008, Gottlieb, Ketcheson, Shu 2009). Other explicit
/// methods: 1, as for forward Euler. Second-order upwind (BDF2 in depth) is no convex combination of Euler
/// steps; its limits come from a scan of |R(-nu (3 - 4 e^{-i theta} + e^{-2 i theta}) / 2)| <= 1 over theta
/// (tests/unit/solvers repeats it): rks2 with five stages 1.71, rks3 and rk104 2.5, Runge-Kutta of order 3
/// and more 0.62, of order 2 0.5. Implicit-explicit methods: 1 and for second-order upwind 0.5, but 2e 0.5
/// and 0.25, ars443 0.85 and 0.4, from the same scan with implicit diffusion of any strength. Throws BadInput
/// for upwind2 with forward Euler and with arkimex 1bee, a2, ars122, bpr3, which no step makes stable.
MethodLimits method_limits(TS ts, DepthScheme scheme);

/// The largest stable step; infinity if there is no limit.
double largest_stable_step(const MethodLimits& limits, const StepRates& rates);

}  // namespace fluxformer
