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
  /// This rank's numbers at t = 0. `tolerance`: relative and absolute error of a step; `step`: length of the first step, in time.
  /// Collective over `comm`.
  Flow(MPI_Comm comm, const std::vector<double>& u, Rate rate, double tolerance, double step);
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  /// Integrates to a later time, which is met exactly. Collective; throws NumericalFailure (agreed) if no step is small enough.
  void advance(double time);
  /// This rank's numbers.
  std::vector<double> state() const;
  /// Evaluations of f so far.
  long evaluations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fluxformer
