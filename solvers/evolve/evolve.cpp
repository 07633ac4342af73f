#include "solvers/evolve/evolve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/evolve/evolve_impl.hpp"

namespace fluxformer {

void Evolve::Impl::before_step() {
  if (!source) return;
  double time = 0;
  check(TSGetTime(ts, &time));
  // A step uses the inflow of its start; the small shift absorbs the round-off of summed steps.
  const long now =
      settings.inflow_every > 0 ? std::lround(std::floor(time / settings.inflow_every + 1e-6)) : 0;
  if (now == block) return;
  block = now;
  source(block, inflow.data());
  field.set_inflow(inflow.data());
}

std::string Evolve::Impl::where() const {
  PetscReal time = 0;
  PetscInt step = 0;
  check(TSGetTime(ts, &time));
  check(TSGetStepNumber(ts, &step));
  std::ostringstream text;
  text.precision(9);
  text << "at step " << step << ", t = " << time;
  return text.str();
}

Evolve::Impl::StateSize Evolve::Impl::look_at_state() const {
  PetscInt size = 0;
  check(VecGetLocalSize(u, &size));
  const ReadArray now(u), before(previous);
  std::array<double, 3> largest{0, 0, 0};  // |u|, |u - previous|, 1 if something is not finite
  double sum = 0;                          // NaN and infinity survive a sum, not every max
  for (PetscInt j = 0; j < size; ++j) {
    largest[0] = std::max(largest[0], std::abs(now.values[j]));
    largest[1] = std::max(largest[1], std::abs(now.values[j] - before.values[j]));
    sum += now.values[j] * 0.0;
  }
  largest[2] = std::isfinite(sum) ? 0 : 1;
  largest_over_ranks(largest, mesh.comm());
  return {largest[0], largest[1], largest[2] == 0};
}

void Evolve::Impl::after_step() {
  const auto seen = look_at_state();
  if (!seen.finite || seen.largest > settings.max_norm) {
    std::ostringstream text;
    if (!seen.finite)
      text << "the state is not finite ";
    else
      text << "the state passed evolve.max_norm = " << settings.max_norm << " (largest |u| = " << seen.largest
           << ") ";
    failure = text.str() + where();
    check(TSSetConvergedReason(ts, TS_CONVERGED_USER));
    return;
  }
  PetscReal time = 0, next = 0, taken = 0;
  PetscInt step = 0;
  check(TSGetTime(ts, &time));
  check(TSGetTimeStep(ts, &next));
  check(TSGetStepNumber(ts, &step));
  PetscReal earlier = 0;
  check(TSGetPrevTime(ts, &earlier));
  taken = time - earlier;
  good = {time, next, step};
  const bool go_on = (*hook)({{time, taken, step}, u, previous});
  const bool steady = settings.steady_tolerance > 0 && taken > 0 &&
                      seen.change / taken <= settings.steady_tolerance *
                                                 std::max(seen.largest, std::numeric_limits<double>::min());
  if (steady || !go_on) {
    end = steady ? EvolveEnd::steady : EvolveEnd::stopped_by_hook;
    check(TSSetConvergedReason(ts, TS_CONVERGED_USER));
  }
  check(VecCopy(u, previous));
  if (first_same_as_last) check(TSRestartStep(ts));
}

Evolve::Evolve(const Mesh& mesh, const Equation& equation, const EvolveSettings& settings)
    : impl_(std::make_unique<Impl>(mesh, equation, settings)) {}
Evolve::~Evolve() = default;

void Evolve::set_inflow(InflowSource source) {
  impl_->source = std::move(source);
  impl_->inflow.assign(impl_->mesh.slab_size(), 0.0);
  impl_->block = -1;
}

const std::vector<double>& Evolve::inflow() const {
  return impl_->inflow;
}

Vec Evolve::state() const {
  return impl_->u;
}

void Evolve::restore(const Clock& clock) {
  check(TSSetTime(impl_->ts, clock.time));
  check(TSSetTimeStep(impl_->ts, clock.step_size));
  check(TSSetStepNumber(impl_->ts, static_cast<PetscInt>(clock.step)));
  impl_->good = clock;
  impl_->plan_remaining_steps();
}

void Evolve::forget_history() {
  check(TSRestartStep(impl_->ts));
}

EvolveEnd Evolve::run(const StepHook& hook) {
  auto& me = *impl_;
  me.hook = &hook;
  me.end = EvolveEnd::time_reached;
  me.failure.clear();
  check(VecCopy(me.u, me.previous));
  me.before_step();
  check(TSSolve(me.ts, me.u));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(me.ts, &reason));
  if (reason < 0) {
    me.failure =
        std::string("the time integrator gave up (") + TSConvergedReasons[reason] + ") " + me.where();
  }
  if (!me.failure.empty()) {
    check(VecCopy(me.previous, me.u));
    throw NumericalFailure(me.failure);
  }
  return me.end;
}

Clock Evolve::clock() const {
  return impl_->good;
}

double Evolve::step_size() const {
  return impl_->dt;
}

std::string Evolve::describe() const {
  const auto& me = *impl_;
  const auto& terms = me.equation;
  const bool all = me.full_jacobian != nullptr, some = me.implicit_jacobian != nullptr;
  return terms.text(all    ? terms.all()
                    : some ? terms.implicit_terms()
                           : Equation::Terms{}) +
         "\n  " +
         (std::isfinite(me.largest_step) ? "step limit: " + me.step_rule()
                                         : "transport and diffusion do not limit the step");
}

void Evolve::rate(Vec u, Vec out) {
  impl_->before_step();
  impl_->field.apply(impl_->equation.all(), u, out);
}

}  // namespace fluxformer
