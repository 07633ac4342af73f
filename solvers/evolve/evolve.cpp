#include "solvers/evolve/evolve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/evolve/step_limits.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

/// The members of Evolve: the integrator, the data of its callbacks, and the state of a run.
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
  /// The rule of the stable step in words: "c dt/h <= 4; the largest stable step is 2".
  std::string step_rule() const;
  void before_step();
  void after_step();
  struct StateSize {
    double largest, change;  // largest |u| and |u - previous|
    bool finite;
  };
  /// The size of the state and of its last change. Collective: one reduction.
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
  Clock good;  // time, step size and number of the last good state
};

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
  // The method's own limit, and that of forward Euler, which is the unit of evolve.cfl. A step is stable if
  // dt (transport rate / C + diffusion rate / D) <= 1 (docs/model.md, 3), with C = D = 1 for forward Euler.
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
    // Where neither transport nor diffusion limits the step: a hundredth of the time.
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
    // Equal steps, none longer than requested, a whole number of them in the whole time. Where the inflow
    // changes, a whole number in each of its intervals: it changes between steps.
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

/// Plans equal steps from `good` to the end. A continued run may have another end time and so another step.
void Evolve::Impl::plan_remaining_steps() {
  if (settings.adaptive_tolerance > 0) return;
  constexpr double round_off = 1e-3;  // of many summed steps, in steps
  // The fewest steps that reach the end, ceil(left / dt); if they would pass it, all are shortened alike, to
  // left / steps.
  const double left = std::max(0.0, settings.time - good.time);
  const double steps = std::ceil(left / good.step_size - round_off);
  if (good.step + steps > std::numeric_limits<PetscInt>::max()) {
    std::ostringstream text;
    text << "evolve.dt: " << settings.time << " time units in steps of " << good.step_size
         << " are more steps than this PETSc can count; use a larger step or a smaller evolve.time";
    throw BadInput(text.str());
  }
  check(TSSetMaxSteps(ts, good.step + static_cast<long>(steps)));
  // Steps that are a fraction of the interval of the inflow are never changed.
  const bool whole = std::abs(left - steps * good.step_size) <= round_off * good.step_size;
  if (steps == 0 || whole || settings.inflow_every > 0) return;
  good.step_size = left / steps;  // to meet the end time
  check(TSSetTimeStep(ts, good.step_size));
}

void Evolve::Impl::register_callbacks() {
  const auto rhs = [](TS, PetscReal, Vec x, Vec f, void* context) {
    return guarded([&] {
      auto& me = *static_cast<Impl*>(context);
      // f of u' = f(u) has all terms; with an implicit-explicit method, u' - D u = f(u), it has the explicit
      // ones alone.
      me.field.apply(me.implicit_jacobian ? me.equation.explicit_terms() : me.equation.all(), x, f);
    });
  };
  check(TSSetRHSFunction(ts, nullptr, rhs, this));
  check(TSSetPreStep(ts, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      static_cast<Impl*>(context)->before_step();
    });
  }));
  check(TSSetPostStep(ts, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      static_cast<Impl*>(context)->after_step();
    });
  }));
  if (implicit()) prepare_implicit_solves();
  check(TSSetErrorIfStepFails(ts, PETSC_FALSE));
}

void Evolve::Impl::prepare_implicit_solves() {
  SNES snes = nullptr;
  KSP ksp = nullptr;
  PC pc = nullptr;
  check(TSGetSNES(ts, &snes));
  check(SNESGetKSP(snes, &ksp));
  check(KSPGetPC(ksp, &pc));
  // Linear problems: solved to round-off, so that Newton's method, if any, sees exact steps.
  check(KSPSetTolerances(ksp, 1e-12, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  PetscBool imex = PETSC_FALSE;
  check(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ts.get()), TSARKIMEX, &imex));
  if (imex == PETSC_TRUE) {
    // F(u, u') = u' - D u with D the implicit terms: linear, one linear solve per stage.
    implicit_jacobian = std::make_unique<ShellMatrix>(
        u,
        [this](Vec x, Vec y) {
          field.apply_tangent(equation.implicit_terms(), at, x, y);
          // y = shift x - D x
          check(VecAYPX(y, -1, x));
          if (shift != 1) check(VecAXPY(y, shift - 1, x));
        },
        ShellMatrix::Product{},
        [this](Vec y) {
          // The diagonal of shift - D, for Jacobi's preconditioner.
          check(VecSet(y, shift));
          const WriteArray diagonal(y);
          const int first = mesh.first_cell();
          equation.add_implicit_diagonal(
              {first, first + mesh.cells()}, -1,
              {first, mesh.cells(), mesh.slab_size(), diagonal.values, {}, nullptr});
        });
    check(TSSetIFunction(
        ts, nullptr,
        [](TS, PetscReal, Vec x, Vec x_dot, Vec f, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.field.apply(me.equation.implicit_terms(), x, f);
            check(VecAYPX(f, -1, x_dot));  // f = u' - D u
          });
        },
        this));
    check(TSSetIJacobian(
        ts, implicit_jacobian->get(), implicit_jacobian->get(),
        [](TS, PetscReal, Vec x, Vec, PetscReal sigma, Mat, Mat, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.at = x;
            me.shift = sigma;
            me.implicit_jacobian->changed();
          });
        },
        this));
    check(SNESSetType(snes, SNESKSPONLY));
    check(PCSetType(pc, PCJACOBI));
  } else {
    // Fully implicit methods: y = (df/du) x at the state `at`, of all terms. There is no preconditioner, as
    // attention is dense over tokens.
    full_jacobian = std::make_unique<ShellMatrix>(
        u, [this](Vec x, Vec y) { field.apply_tangent(equation.all(), at, x, y); });
    check(TSSetRHSJacobian(
        ts, full_jacobian->get(), full_jacobian->get(),
        [](TS, PetscReal, Vec x, Mat, Mat, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.at = x;
            me.full_jacobian->changed();
          });
        },
        this));
    check(PCSetType(pc, PCNONE));
  }
  check(SNESSetFromOptions(snes));
}

void Evolve::Impl::before_step() {
  if (!source) return;
  double time = 0;
  check(TSGetTime(ts, &time));
  // A step uses the inflow of its start, block floor(t / every), or the only one where it is constant. The
  // small shift absorbs the round-off of summed steps.
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
  // 0 u is 0, but NaN where u is NaN or infinite. A sum keeps a NaN, a maximum may lose it.
  double sum = 0;
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
    // `previous` and `good` stay those of the last good state, to which run() returns.
    failure = text.str() + where();
    check(TSSetConvergedReason(ts, TS_CONVERGED_USER));
    return;
  }
  PetscReal time = 0, next = 0, taken = 0;
  PetscInt step = 0;
  check(TSGetTime(ts, &time));
  check(TSGetTimeStep(ts, &next));
  check(TSGetStepNumber(ts, &step));
  // The step that was taken is t_k - t_{k-1}: the integrator already holds the size of the next one.
  PetscReal earlier = 0;
  check(TSGetPrevTime(ts, &earlier));
  taken = time - earlier;
  good = {time, next, step};
  const bool go_on = (*hook)({{time, taken, step}, u, previous});
  // Steady if max |u_k - u_{k-1}| / dt <= tolerance * max |u_k| over all entries of the mesh
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
  check(TSSetStepNumber(impl_->ts, clock.step));
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
    // Back to the last good state, whose clock is `good`.
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
