#include "solvers/flow/flow.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer {

struct Flow::Impl {
  Rate rate;
  Index size = 0;
  VecHandle u;
  TSHandle ts;
  long evaluations = 0;
  const GoOn* go_on = nullptr;  // of `advance`, which borrows it

  std::span<const double> values(const double* array) const {
    return {array, static_cast<std::size_t>(size)};
  }
  void after_step();
};

void Flow::Impl::after_step() {
  if (!*go_on) return;
  const ReadArray at(u);
  if (!(*go_on)(values(at.values))) check(TSSetConvergedReason(ts, TS_CONVERGED_USER));
}

Flow::Flow(MPI_Comm comm, const std::vector<double>& u, Rate rate, double tolerance, Clock at)
    : impl_(std::make_unique<Impl>()) {
  auto& me = *impl_;
  me.rate = std::move(rate);
  me.size = std::ssize(u);
  check(VecCreateMPI(comm, me.size, PETSC_DETERMINE, me.u.out()));
  {
    const WriteArray to(me.u);
    std::copy(u.begin(), u.end(), to.values);
  }
  check(TSCreate(comm, me.ts.out()));
  check(TSSetProblemType(me.ts, TS_NONLINEAR));
  check(TSSetType(me.ts, TSRK));
  check(TSRKSetType(me.ts, TSRK5DP));
  check(TSSetTolerances(me.ts, tolerance, nullptr, tolerance, nullptr));
  check(TSSetTime(me.ts, at.time));
  check(TSSetTimeStep(me.ts, at.step));
  check(TSSetMaxSteps(me.ts, std::numeric_limits<PetscInt>::max()));
  check(TSSetExactFinalTime(me.ts, TS_EXACTFINALTIME_MATCHSTEP));
  check(TSSetErrorIfStepFails(me.ts, PETSC_FALSE));
  check(TSSetRHSFunction(
      me.ts, nullptr,
      [](TS, PetscReal, Vec x, Vec f, void* context) {
        return guarded([&] {
          auto& own = *static_cast<Impl*>(context);
          const ReadArray from(x);
          const WriteArray to(f);
          own.rate(own.values(from.values), {to.values, static_cast<std::size_t>(own.size)});
          ++own.evaluations;
        });
      },
      &me));
  check(TSSetApplicationContext(me.ts, &me));
  check(TSSetPostStep(me.ts, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      static_cast<Impl*>(context)->after_step();
    });
  }));
  check(TSSetSolution(me.ts, me.u));
}

Flow::~Flow() = default;

void Flow::limit_steps(double longest) {
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(impl_->ts, &adapt));
  check(TSAdaptSetStepLimits(adapt, PETSC_DEFAULT, longest));
  if (clock().step > longest) check(TSSetTimeStep(impl_->ts, longest));
}

bool Flow::advance(double time, const GoOn& go_on) {
  auto& me = *impl_;
  if (clock().time >= time) return true;
  me.go_on = &go_on;
  check(TSRestartStep(
      me.ts));  // no use of the last stage of earlier steps, which a restarted flow does not have
  check(TSSetMaxTime(me.ts, time));
  check(TSSetConvergedReason(me.ts, TS_CONVERGED_ITERATING));
  check(TSSolve(me.ts, nullptr));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(me.ts, &reason));
  if (reason < 0) {
    std::ostringstream text;
    text << "t = " << clock().time << ": no step is small enough for the tolerance";
    throw NumericalFailure(text.str());
  }
  const bool there = reason != TS_CONVERGED_USER || clock().time >= time;
  if (there) check(TSSetTime(me.ts, time));  // not a rounding beside it
  return there;
}

Flow::Clock Flow::clock() const {
  Clock now;
  check(TSGetTime(impl_->ts, &now.time));
  check(TSGetTimeStep(impl_->ts, &now.step));
  return now;
}

std::vector<double> Flow::state() const {
  const ReadArray from(impl_->u);
  return {from.values, from.values + impl_->size};
}

long Flow::evaluations() const {
  return impl_->evaluations;
}

}  // namespace fluxformer
