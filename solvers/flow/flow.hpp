#pragma once

// An ordinary differential equation du/dt = f(u) whose numbers the ranks share, integrated by PETSc TS with error-controlled Runge-Kutta
// steps.

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {

/// The integrator of such an equation, with the state that it integrates.
class Flow {
 public:
  /// f of this rank's numbers, as many as `u`. Collective over the ranks of the flow.
  using Rate = std::function<void(std::span<const double> u, std::span<double> rate)>;
  /// Asked after each step with this rank's numbers; false, on all ranks, ends the integration there. Collective.
  using GoOn = std::function<bool(std::span<const double> u)>;
  /// The time, and the length of the next step unless tolerance and limit shorten it.
  struct Clock {
    double time = 0, step = 0;
  };

  /// This rank's numbers `u` at the time of the clock. `tolerance`: relative and absolute error of a step. Collective over `comm`.
  Flow(MPI_Comm comm, const std::vector<double>& u, Rate rate, double tolerance, Clock at);
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  /// Steps are not longer than this from now on.
  void limit_steps(double longest);
  /// Integrates to a later time, which is met exactly; returns false if `go_on` ended it before that. A flow that begins with the state, the limit and the
  /// clock of another one goes on as that one does, in every digit. Collective; throws NumericalFailure (agreed) if no step is small enough.
  bool advance(double time, const GoOn& go_on = {});
  /// This rank's numbers.
  std::vector<double> state() const;
  Clock clock() const;
  /// Evaluations of f so far.
  long evaluations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fluxformer
