#include "solvers/march.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

struct March::Impl {
  Impl(DepthModel& m, DepthCells d, double c, const MarchSettings& s);
  void check_combination() const;
  void make_stepper();
  void make_newton();
  void march_ts(const RowVisitor& row);
  void march_bdf2(const RowVisitor& row);
  /// f = F_s(x) / c
  void field(const DepthPoint& at, Vec x, Vec f);
  void field_tangent(const DepthPoint& at, Vec x, Vec v, Vec f);
  DepthPoint stage_point(double s) const;
  void show(int cell, const RowVisitor& row);

  DepthModel& model;
  DepthCells depth;
  double speed;
  MarchSettings settings;
  MPI_Comm comm;
  VecHandle u, residual;
  TSHandle ts;
  SNESHandle snes;
  std::unique_ptr<ShellMatrix> jacobian;
  // the linearisation point and the cell the integrator is in
  Vec at = nullptr;
  DepthPoint at_point;
  int cell = 1;
  // bdf2: lead * u - known = F(u) / c
  VecHandle known, older;
  double lead = 0;
  const RowVisitor* visit = nullptr;
};

March::Impl::Impl(DepthModel& m, DepthCells d, double c, const MarchSettings& s)
    : model(m), depth(d), speed(c), settings(s), comm(m.context().line->comm()) {
  check_combination();
  const auto size = static_cast<PetscInt>(model.context().size());
  check(VecCreateMPI(comm, size, PETSC_DECIDE, u.out()));
  if (settings.method == "bdf2")
    make_newton();
  else
    make_stepper();
}

void March::Impl::check_combination() const {
  const auto& spec = model.spec();
  if (!(speed > 0)) throw BadInput("equation.c must be > 0 to march through depth");
  if (spec.variation == DepthVariation::constant && depth.cells % depth.layers != 0)
    throw BadInput("mesh.cells = " + std::to_string(depth.cells) + ": must be a multiple of mesh.layers = " +
                   std::to_string(depth.layers) + " when every layer has weights of its own");
  if (settings.method != "euler" && (spec.norm == Norm::post || spec.norm == Norm::sphere || !spec.residual))
    throw BadInput("march.method = " + settings.method +
                   ": needs depth.norm = pre or none and depth.residual = on");
}

DepthPoint March::Impl::stage_point(double s) const {
  // Constant weights: all stages of a step use the layer of its cell.
  return {cell_entry(cell, depth.layers, depth.cells).layer, s};
}

void March::Impl::field(const DepthPoint& point, Vec x, Vec f) {
  check(VecZeroEntries(f));
  const double* from = nullptr;
  double* to = nullptr;
  check(VecGetArrayRead(x, &from));
  check(VecGetArray(f, &to));
  for (const auto part : all_mechanisms) model.add_field(part, point, 1 / speed, from, to);
  check(VecRestoreArray(f, &to));
  check(VecRestoreArrayRead(x, &from));
}

void March::Impl::field_tangent(const DepthPoint& point, Vec x, Vec v, Vec f) {
  check(VecZeroEntries(f));
  const double *from = nullptr, *direction = nullptr;
  double* to = nullptr;
  check(VecGetArrayRead(x, &from));
  check(VecGetArrayRead(v, &direction));
  check(VecGetArray(f, &to));
  for (const auto part : all_mechanisms)
    model.add_field_tangent(part, point, 1 / speed, from, direction, to);
  check(VecRestoreArray(f, &to));
  check(VecRestoreArrayRead(v, &direction));
  check(VecRestoreArrayRead(x, &from));
}

void March::Impl::make_stepper() {
  check(TSCreate(comm, ts.out()));
  check(TSSetProblemType(ts, TS_NONLINEAR));
  const bool layer_map = settings.method == "euler";
  if (layer_map) {
    check(TSSetType(ts, TSEULER));
    check(TSSetRHSFunction(
        ts, nullptr,
        [](TS, PetscReal, Vec x, Vec f, void* context) {
          return guarded([&] {
            // (G(u; h/c) - u) / h, so that the Euler step of length h is the layer map.
            auto& me = *static_cast<Impl*>(context);
            const double *from = nullptr, h = me.depth.spacing();
            double* to = nullptr;
            check(VecGetArrayRead(x, &from));
            check(VecGetArray(f, &to));
            me.model.increment(cell_entry(me.cell, me.depth.layers, me.depth.cells), h / me.speed, from, to);
            check(VecRestoreArray(f, &to));
            check(VecRestoreArrayRead(x, &from));
            check(VecScale(f, 1 / h));
          });
        },
        this));
  } else {
    check(TSSetType(ts, settings.method.c_str()));
    if (settings.method == "rk")
      check(TSRKSetType(ts, settings.variant.empty() ? TSRK4 : settings.variant.c_str()));
    check(TSSetRHSFunction(
        ts, nullptr,
        [](TS, PetscReal s, Vec x, Vec f, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.field(me.stage_point(s), x, f);
          });
        },
        this));
    jacobian = std::make_unique<ShellMatrix>(u, [this](Vec x, Vec y) { field_tangent(at_point, at, x, y); });
    check(TSSetRHSJacobian(
        ts, jacobian->get(), jacobian->get(),
        [](TS, PetscReal s, Vec x, Mat, Mat, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.at = x;
            me.at_point = me.stage_point(s);
            me.jacobian->changed();
          });
        },
        this));
  }
  check(TSSetApplicationContext(ts, this));
  check(TSSetPostStep(ts, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      auto& me = *static_cast<Impl*>(context);
      me.show(me.cell, *me.visit);
      ++me.cell;
    });
  }));
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  check(TSAdaptSetType(adapt, TSADAPTNONE));
  check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
  check(TSSetMaxTime(ts, std::numeric_limits<double>::max()));
  check(TSSetMaxSteps(ts, depth.cells));
  check(TSSetErrorIfStepFails(ts, PETSC_FALSE));
  if (!layer_map && settings.method != "rk") {
    SNES newton = nullptr;
    check(TSGetSNES(ts, &newton));
    KSP ksp = nullptr;
    PC pc = nullptr;
    check(SNESGetKSP(newton, &ksp));
    check(KSPGetPC(ksp, &pc));
    check(PCSetType(pc, PCNONE));
    check(KSPSetTolerances(ksp, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
    check(
        SNESSetTolerances(newton, PETSC_DEFAULT, settings.tolerance, settings.tolerance, 50, PETSC_DEFAULT));
  }
}

void March::Impl::make_newton() {
  check(VecDuplicate(u, residual.out()));
  check(VecDuplicate(u, known.out()));
  check(VecDuplicate(u, older.out()));
  check(SNESCreate(comm, snes.out()));
  check(SNESSetFunction(
      snes, residual,
      [](SNES, Vec x, Vec f, void* context) {
        return guarded([&] {
          auto& me = *static_cast<Impl*>(context);
          me.field(me.at_point, x, f);
          check(VecAYPX(f, -1, x));
          check(VecAXPY(f, me.lead - 1, x));
          check(VecAXPY(f, -1, me.known));
        });
      },
      this));
  jacobian = std::make_unique<ShellMatrix>(u, [this](Vec x, Vec y) {
    field_tangent(at_point, at, x, y);
    check(VecAYPX(y, -1, x));
    check(VecAXPY(y, lead - 1, x));
  });
  check(SNESSetJacobian(
      snes, jacobian->get(), jacobian->get(),
      [](SNES, Vec x, Mat, Mat, void* context) {
        return guarded([&] {
          auto& me = *static_cast<Impl*>(context);
          me.at = x;
          me.jacobian->changed();
        });
      },
      this));
  KSP ksp = nullptr;
  PC pc = nullptr;
  check(SNESGetKSP(snes, &ksp));
  check(KSPGetPC(ksp, &pc));
  check(PCSetType(pc, PCNONE));
  check(KSPSetTolerances(ksp, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  check(SNESSetTolerances(snes, PETSC_DEFAULT, settings.tolerance, settings.tolerance, 50, PETSC_DEFAULT));
}

void March::Impl::show(int row_cell, const RowVisitor& row) {
  const double* values = nullptr;
  check(VecGetArrayRead(u, &values));
  double sum = 0;
  for (std::size_t j = 0; j < model.context().size(); ++j) sum += values[j] * 0.0;
  agree(comm, std::isfinite(sum), "the state is not finite at depth cell " + std::to_string(row_cell),
        ExitCode::numerical);
  row(row_cell, values);
  check(VecRestoreArrayRead(u, &values));
}

void March::Impl::march_ts(const RowVisitor& row) {
  cell = 1;
  visit = &row;
  check(TSSetTime(ts, 0));
  check(TSSetStepNumber(ts, 0));
  check(TSSetTimeStep(ts, depth.spacing()));
  check(TSSolve(ts, u));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(ts, &reason));
  if (reason < 0)
    throw NumericalFailure("the march through depth stopped in cell " + std::to_string(cell) + " (" +
                           TSConvergedReasons[reason] + "); a smaller depth step (more mesh.cells) may help");
}

void March::Impl::march_bdf2(const RowVisitor& row) {
  const double h = depth.spacing();
  for (cell = 1; cell <= depth.cells; ++cell) {
    at_point = cell_exit(cell, depth.layers, depth.cells);
    if (cell == 1) {
      lead = 1 / h;  // backward Euler
      check(VecCopy(u, known));
      check(VecScale(known, 1 / h));
    } else {
      lead = 3 / (2 * h);
      check(VecCopy(u, known));
      check(VecScale(known, 2 / h));
      check(VecAXPY(known, -1 / (2 * h), older));
    }
    check(VecCopy(u, older));
    check(SNESSolve(snes, nullptr, u));
    SNESConvergedReason reason = SNES_CONVERGED_ITERATING;
    check(SNESGetConvergedReason(snes, &reason));
    if (reason < 0)
      throw NumericalFailure("Newton's method failed in depth cell " + std::to_string(cell) + " (" +
                             SNESConvergedReasons[reason] +
                             "); a smaller depth step (more mesh.cells) may help");
    show(cell, row);
  }
}

March::March(DepthModel& model, DepthCells depth, double speed, const MarchSettings& settings)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings)) {}
March::~March() = default;

void March::run(const double* inflow, const RowVisitor& row) {
  double* values = nullptr;
  check(VecGetArray(impl_->u, &values));
  std::copy_n(inflow, impl_->model.context().size(), values);
  check(VecRestoreArray(impl_->u, &values));
  if (impl_->settings.method == "bdf2")
    impl_->march_bdf2(row);
  else
    impl_->march_ts(row);
}

}  // namespace fluxformer
