#pragma once

// The members of Evolve: the integrator, the data of its callbacks, and the state of a run. Internal to
// solvers/evolve.

#include <memory>
#include <string>
#include <vector>

#include "solvers/evolve/evolve.hpp"
#include "solvers/evolve/step_limits.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

struct Evolve::Impl {
  Impl(const Mesh& m, const Equation& e, const EvolveSettings& s);
  void choose_method();
  void choose_step();
  void plan_remaining_steps();
  void register_callbacks();
  void prepare_implicit_solves();
  bool implicit() const { return limits.implicit_terms; }
  /// The terms that limit the step.
  const Equation::Terms& explicit_part() const {
    return implicit() ? equation.explicit_terms() : equation.all();
  }
  /// "c dt/h <= 4; the largest stable step is 2"
  std::string step_rule() const;
  void before_step();
  void after_step();
  struct StateSize {
    double largest, change;  // largest |u| and |u - previous|
    bool finite;
  };
  /// Collective: one reduction.
  StateSize look_at_state() const;
  std::string where() const;

  const Mesh& mesh;
  const Equation& equation;
  EvolveSettings settings;
  FieldOperator field;
  VecHandle u, previous;
  TSHandle ts;
  MethodLimits limits;
  double largest_step = 0, euler_step = 0;  // stable, of the method and of forward Euler; infinity: any
  double dt = 0;
  bool first_same_as_last = false;  // the method would reuse its last stage in the next step
  // Jacobians of implicit terms and of all: at the linearisation point `at`, with PETSc's shift
  std::unique_ptr<ShellMatrix> implicit_jacobian, full_jacobian;
  Vec at = nullptr;
  double shift = 0;
  // inflow
  InflowSource source;
  std::vector<double> inflow;
  long block = -1;
  // while running
  const StepHook* hook = nullptr;
  EvolveEnd end = EvolveEnd::time_reached;
  std::string failure;
  Clock good;  // of the last good state
};

}  // namespace fluxformer
