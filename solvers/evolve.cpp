#include "solvers/evolve.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "solvers/shell_matrix.hpp"
#include "solvers/step_limits.hpp"

namespace fluxformer {

struct Evolve::Impl {
  Impl(const Mesh& m, const Equation& e, const EvolveSettings& s);
  void choose_method();
  void choose_step();
  void register_callbacks();
  void prepare_implicit_solves();
  bool implicit() const { return limits.diffusion_implicit; }
  void before_step();
  void after_step();
  std::string where() const;

  const Mesh& mesh;
  const Equation& equation;
  EvolveSettings settings;
  FieldOperator field;
  VecHandle u, previous;
  TSHandle ts;
  MethodLimits limits;
  double dt = 0;
  bool first_same_as_last = false;  // a method that would carry its last stage over to the next step
  // implicit parts: at the linearisation point `at`, with the shift of the implicit Jacobian
  std::unique_ptr<ShellMatrix> diffusion_jacobian, full_jacobian;
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

void Evolve::Impl::choose_step() {
  const auto rates = equation.rates();
  const double largest = largest_stable_step(limits, rates);
  const double euler =
      largest_stable_step({1, 1, false}, {rates.transport, implicit() ? 0 : rates.diffusion});
  const bool adaptive = settings.adaptive_tolerance > 0;
  constexpr double slack = 1 + 1e-12;  // round-off in h, c and dt; the limits are inclusive
  if (settings.dt > 0) {
    if (settings.dt > largest * slack) {
      std::ostringstream text;
      text.precision(12);
      text << "evolve.dt = " << settings.dt << ": not stable with evolve.method = " << settings.method
           << " and depth.scheme = " << to_word(equation.spec().scheme) << ", which need "
           << equation.limit_rule(implicit()) << " <= " << largest / euler << "; the largest stable step is "
           << largest;
      throw BadInput(text.str());
    }
    dt = settings.dt;
  } else {
    dt = std::isfinite(euler) ? settings.cfl * euler : settings.time / 100;
    if (dt > largest * slack) {
      std::ostringstream text;
      text.precision(12);
      text << "evolve.cfl = " << settings.cfl << ": not stable with evolve.method = " << settings.method
           << "; the largest is " << largest / euler;
      throw BadInput(text.str());
    }
  }
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  const double every = settings.inflow_every;
  if (adaptive) {
    if (every > 0) throw BadInput("inflow.every: a changing inflow needs fixed steps (evolve.tolerance = 0)");
    if (std::isfinite(largest)) check(TSAdaptSetStepLimits(adapt, PETSC_DEFAULT, largest));
    check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_MATCHSTEP));
    check(TSSetMaxTime(ts, settings.time));
    check(TSSetMaxSteps(ts, std::numeric_limits<PetscInt>::max()));
  } else {
    // Equal steps, none longer than asked for; changes of the inflow fall between steps.
    if (every > 0)
      dt = every / std::ceil(every / dt / slack);
    else
      dt = settings.time / std::max(1.0, std::ceil(settings.time / dt / slack));
    check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
    check(TSSetMaxTime(ts, std::numeric_limits<double>::max()));
    check(TSSetMaxSteps(ts, static_cast<PetscInt>(std::ceil(settings.time / dt / slack))));
  }
  check(TSSetTimeStep(ts, std::min(dt, settings.time)));
  good.step_size = dt;
}

void Evolve::Impl::register_callbacks() {
  const auto rhs = [](TS, PetscReal, Vec x, Vec f, void* context) {
    return guarded([&] {
      auto& me = *static_cast<Impl*>(context);
      me.field.apply(me.implicit() && me.diffusion_jacobian ? me.equation.rest() : me.equation.all(), x, f);
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
  check(KSPSetTolerances(ksp, 1e-12, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  PetscBool imex = PETSC_FALSE;
  check(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ts.get()), TSARKIMEX, &imex));
  if (imex == PETSC_TRUE) {
    // F(u, u') = u' - D u with D the diffusions: linear, so one linear solve a stage.
    diffusion_jacobian = std::make_unique<ShellMatrix>(
        u,
        [this](Vec x, Vec y) {
          field.apply_tangent(equation.diffusive(), at, x, y);
          check(VecAYPX(y, -1, x));  // y := x - D x, then scaled below where the shift is not 1
          if (shift != 1) check(VecAXPY(y, shift - 1, x));
        },
        ShellMatrix::Product{},
        [this](Vec y) {
          check(VecSet(y, shift));
          double* d = nullptr;
          check(VecGetArray(y, &d));
          for (int i = 0; i < mesh.cells(); ++i)
            equation.add_diffusive_diagonal(mesh.first_cell() + i, -1,
                                            d + static_cast<std::size_t>(i) * mesh.slab_size());
          check(VecRestoreArray(y, &d));
        });
    check(TSSetIFunction(
        ts, nullptr,
        [](TS, PetscReal, Vec x, Vec x_dot, Vec f, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.field.apply(me.equation.diffusive(), x, f);
            check(VecAYPX(f, -1, x_dot));
          });
        },
        this));
    check(TSSetIJacobian(
        ts, diffusion_jacobian->get(), diffusion_jacobian->get(),
        [](TS, PetscReal, Vec x, Vec, PetscReal sigma, Mat, Mat, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.at = x;
            me.shift = sigma;
            me.diffusion_jacobian->changed();
          });
        },
        this));
    check(SNESSetType(snes, SNESKSPONLY));
    check(PCSetType(pc, PCJACOBI));
  } else {
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
  // The inflow of a step is that of its start; the small shift absorbs the round-off of summed steps.
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

void Evolve::Impl::after_step() {
  // largest |u|, largest |u - previous|, whether something is not finite: one reduction
  std::array<double, 3> largest{0, 0, 0};
  PetscInt size = 0;
  const double *now = nullptr, *before = nullptr;
  check(VecGetLocalSize(u, &size));
  check(VecGetArrayRead(u, &now));
  check(VecGetArrayRead(previous, &before));
  double sum = 0;  // NaN and infinity survive a sum, not every max
  for (PetscInt j = 0; j < size; ++j) {
    largest[0] = std::max(largest[0], std::abs(now[j]));
    largest[1] = std::max(largest[1], std::abs(now[j] - before[j]));
    sum += now[j] * 0.0;
  }
  check(VecRestoreArrayRead(previous, &before));
  check(VecRestoreArrayRead(u, &now));
  largest[2] = std::isfinite(sum) ? 0 : 1;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, largest.data(), 3, MPI_DOUBLE, MPI_MAX, mesh.comm()));

  if (largest[2] > 0 || largest[0] > settings.max_norm) {
    std::ostringstream text;
    if (largest[2] > 0)
      text << "the state is not finite ";
    else
      text << "the state passed evolve.max_norm = " << settings.max_norm << " (largest |u| = " << largest[0]
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
                      largest[1] / taken <= settings.steady_tolerance *
                                                std::max(largest[0], std::numeric_limits<double>::min());
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

Vec Evolve::state() const {
  return impl_->u;
}

void Evolve::restore(const Clock& clock) {
  check(TSSetTime(impl_->ts, clock.time));
  check(TSSetTimeStep(impl_->ts, clock.step_size));
  check(TSSetStepNumber(impl_->ts, static_cast<PetscInt>(clock.step)));
  impl_->good = clock;
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

void Evolve::rate(Vec u, Vec out) {
  impl_->before_step();
  impl_->field.apply(impl_->equation.all(), u, out);
}

}  // namespace fluxformer
