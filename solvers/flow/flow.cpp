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
};

Flow::Flow(MPI_Comm comm, const std::vector<double>& u, Rate rate, double tolerance, double step)
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
  check(TSSetTimeStep(me.ts, step));
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
          own.rate({from.values, static_cast<std::size_t>(own.size)},
                   {to.values, static_cast<std::size_t>(own.size)});
          ++own.evaluations;
        });
      },
      &me));
  check(TSSetSolution(me.ts, me.u));
}

Flow::~Flow() = default;

void Flow::advance(double time) {
  auto& me = *impl_;
  check(TSSetMaxTime(me.ts, time));
  check(TSSetConvergedReason(me.ts, TS_CONVERGED_ITERATING));
  check(TSSolve(me.ts, nullptr));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(me.ts, &reason));
  if (reason < 0) {
    double reached = 0;
    check(TSGetTime(me.ts, &reached));
    std::ostringstream text;
    text << "t = " << reached << ": no step is small enough for the tolerance";
    throw NumericalFailure(text.str());
  }
}

std::vector<double> Flow::state() const {
  const ReadArray from(impl_->u);
  return {from.values, from.values + impl_->size};
}

long Flow::evaluations() const {
  return impl_->evaluations;
}

}  // namespace fluxformer
