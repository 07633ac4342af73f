#include "solvers/evolve/step_limits.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"

namespace fluxformer {
namespace {

std::string type_of(TS ts) {
  TSType type = nullptr;
  check(TSGetType(ts, &type));
  return type == nullptr ? "" : type;
}

/// Transport is explicit, the implicit terms have any strength. Explicit diffusion gets the limit of
/// transport.
MethodLimits implicit_explicit_limits(TS ts, bool second) {
  TSARKIMEXType type = nullptr;
  check(TSARKIMEXGetType(ts, &type));
  const std::string variant = type == nullptr ? "" : type;
  double limit = second ? 0.5 : 1.0;
  if (variant == TSARKIMEX2E) limit = second ? 0.25 : 0.5;
  if (variant == TSARKIMEXARS443) limit = second ? 0.4 : 0.85;
  for (const auto* unstable : {TSARKIMEX1BEE, TSARKIMEXA2, TSARKIMEXARS122, TSARKIMEXBPR3})
    if (second && variant == unstable)
      throw BadInput("evolve.variant = " + variant +
                     ": not stable with depth.scheme = upwind2; use 3, 4 or 5, or depth.scheme = upwind");
  return {limit, limit, true};
}

}  // namespace

MethodLimits method_limits(TS ts, DepthScheme scheme) {
  constexpr double none = std::numeric_limits<double>::infinity();
  const std::string type = type_of(ts);
  const bool second = scheme == DepthScheme::upwind2;
  if (type == TSEULER) {
    if (second)
      throw BadInput(
          "evolve.method = euler: not stable with depth.scheme = upwind2 for any step; use ssp or rk");
    return {};
  }
  if (type == TSSSP) {
    TSSSPType variant = nullptr;
    PetscInt stages = 0;
    check(TSSSPGetType(ts, &variant));
    check(TSSSPGetNumStages(ts, &stages));
    const std::string name = variant;
    // C of the SSP methods: 6 for rk104, s - 1 for rks2 of s stages, s - sqrt(s) for rks3 of s = n^2 stages
    double c = 6;
    if (name == TSSSPRKS2) c = stages - 1;
    if (name == TSSSPRKS3) c = stages - std::sqrt(stages);
    // The scanned limits hold for the default numbers of stages and for more.
    const double upwind2 = name == TSSSPRKS2 ? (stages >= 5 ? 1.71 : 0.5) : (stages >= 9 ? 2.5 : 0.62);
    return {second ? upwind2 : c, c, false};
  }
  if (type == TSRK) {
    PetscInt order = 0;
    check(TSRKGetOrder(ts, &order));
    if (order == 1 && second)
      throw BadInput("evolve.variant = 1fe: not stable with depth.scheme = upwind2 for any step");
    return {second ? (order >= 3 ? 0.62 : 0.5) : 1.0, 1.0, false};
  }
  if (type == TSARKIMEX) return implicit_explicit_limits(ts, second);
  return {none, none, true};  // implicit methods chosen through [petsc]
}

double largest_stable_step(const MethodLimits& limits, const StepRates& rates) {
  // dt (transport / C + diffusion / D) <= 1
  const double share = rates.transport / limits.transport + rates.diffusion / limits.diffusion;
  return share > 0 ? 1 / share : std::numeric_limits<double>::infinity();
}

}  // namespace fluxformer
