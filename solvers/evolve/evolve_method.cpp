// The choice of the integrator and of its step.

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "solvers/evolve/evolve_impl.hpp"

namespace fluxformer {

Evolve::Impl::Impl(const Mesh& m, const Equation& e, const EvolveSettings& s)
    : mesh(m), equation(e), settings(s), field(m, e), u(m.create_vector()), previous(m.create_vector()) {
  check(TSCreate(mesh.comm(), ts.out()));
  check(TSSetProblemType(ts, TS_NONLINEAR));
  check(TSSetApplicationContext(ts, this));
  check(TSSetSolution(ts, u));
  choose_method();
  register_callbacks();
  choose_step();
}

void Evolve::Impl::choose_method() {
  const auto type = [&](const char* name) { check(TSSetType(ts, name)); };
  const auto variant = [&](const char* fallback, auto&& set) {
    const PetscErrorCode code = set(ts, settings.variant.empty() ? fallback : settings.variant.c_str());
    if (code == PETSC_ERR_ARG_UNKNOWN_TYPE)
      throw BadInput(
          "evolve.variant = " + settings.variant + ": PETSc has no " + settings.method +
          " of that name; there are, for ssp: rks2, rks3, rk104; for rk: 1fe, 2a, 3, 3bs, 4, 5f, 5dp, "
          "5bs, 6vr, 7vr, 8vr; for arkimex: a2, l2, ars443, 3, 4, 5");
    check(code);
  };
  if (settings.method == "ssp") {
    type(TSSSP);
    variant(TSSSPRKS2, TSSSPSetType);
  } else if (settings.method == "rk") {
    type(TSRK);
    variant(settings.adaptive_tolerance > 0 ? TSRK5F : TSRK4, TSRKSetType);
  } else if (settings.method == "arkimex") {
    type(TSARKIMEX);
    variant(TSARKIMEX3, TSARKIMEXSetType);
  } else if (settings.method == "euler") {
    if (!settings.variant.empty())
      throw BadInput("evolve.variant = " + settings.variant + ": evolve.method = euler has no variants");
    type(TSEULER);
  } else {
    throw BadInput("evolve.method = " + settings.method + ": must be one of ssp, rk, euler, arkimex");
  }
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  check(TSAdaptSetType(adapt, settings.adaptive_tolerance > 0 ? TSADAPTBASIC : TSADAPTNONE));
  if (settings.adaptive_tolerance > 0) {
    if (settings.method != "rk" && settings.method != "arkimex")
      throw BadInput("evolve.tolerance: error-controlled steps need evolve.method = rk or arkimex");
    check(TSSetTolerances(ts, settings.adaptive_tolerance, nullptr, settings.adaptive_tolerance, nullptr));
  }
  check(TSSetFromOptions(ts));
  limits = method_limits(ts, equation.spec().scheme);
  PetscBool rk = PETSC_FALSE, fsal = PETSC_FALSE;
  check(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ts.get()), TSRK, &rk));
  if (rk == PETSC_TRUE)
    check(TSRKGetTableau(ts, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &fsal));
  first_same_as_last = fsal == PETSC_TRUE;
}

std::string Evolve::Impl::step_rule() const {
  std::ostringstream text;
  text.precision(12);
  text << fluxformer::step_rule(explicit_part()) << " <= " << largest_step / euler_step
       << "; the largest stable step is " << largest_step;
  return text.str();
}

void Evolve::Impl::choose_step() {
  const auto rates = step_rates(explicit_part());
  largest_step = largest_stable_step(limits, rates);
  euler_step = largest_stable_step({}, rates);
  const bool adaptive = settings.adaptive_tolerance > 0;
  constexpr double slack = 1 + 1e-12;  // round-off in h, c and dt; the limits are inclusive
  if (settings.dt > 0) {
    if (settings.dt > largest_step * slack) {
      std::ostringstream text;
      text.precision(12);
      text << "evolve.dt = " << settings.dt << ": not stable with evolve.method = " << settings.method
           << " and depth.scheme = " << to_word(equation.spec().scheme) << ", which need " << step_rule();
      throw BadInput(text.str());
    }
    dt = settings.dt;
  } else {
    dt = std::isfinite(euler_step) ? settings.cfl * euler_step : settings.time / 100;
    if (dt > largest_step * slack) {
      std::ostringstream text;
      text.precision(12);
      text << "evolve.cfl = " << settings.cfl << ": not stable with evolve.method = " << settings.method
           << "; the largest is " << largest_step / euler_step;
      throw BadInput(text.str());
    }
  }
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  const double every = settings.inflow_every;
  if (adaptive) {
    if (every > 0) throw BadInput("inflow.every: a changing inflow needs fixed steps (evolve.tolerance = 0)");
    if (std::isfinite(largest_step)) check(TSAdaptSetStepLimits(adapt, PETSC_DEFAULT, largest_step));
    check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_MATCHSTEP));
    check(TSSetMaxTime(ts, settings.time));
    check(TSSetMaxSteps(ts, std::numeric_limits<PetscInt>::max()));
  } else {
    // Equal steps, none longer than requested; the inflow changes between steps.
    if (every > 0)
      dt = every / std::ceil(every / dt / slack);
    else
      dt = settings.time / std::max(1.0, std::ceil(settings.time / dt / slack));
    check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
    check(TSSetMaxTime(ts, std::numeric_limits<double>::max()));
  }
  good.step_size = dt;
  check(TSSetTimeStep(ts, std::min(dt, settings.time)));
  plan_remaining_steps();
}

/// Equal steps from `good` to the end. A continued run may have another end time and so another step.
void Evolve::Impl::plan_remaining_steps() {
  if (settings.adaptive_tolerance > 0) return;
  constexpr double round_off = 1e-3;  // of many summed steps, in steps
  const double left = std::max(0.0, settings.time - good.time);
  const double steps = std::ceil(left / good.step_size - round_off);
  if (static_cast<double>(good.step) + steps > static_cast<double>(std::numeric_limits<PetscInt>::max())) {
    std::ostringstream text;
    text << "evolve.dt: " << settings.time << " time units in steps of " << good.step_size
         << " are more steps than this PETSc can count; use a larger step or a smaller evolve.time";
    throw BadInput(text.str());
  }
  check(TSSetMaxSteps(ts, static_cast<PetscInt>(good.step + static_cast<long>(steps))));
  const bool whole = std::abs(left - steps * good.step_size) <= round_off * good.step_size;
  if (steps == 0 || whole || settings.inflow_every > 0) return;
  good.step_size = left / steps;  // to meet the end time
  check(TSSetTimeStep(ts, good.step_size));
}

}  // namespace fluxformer
