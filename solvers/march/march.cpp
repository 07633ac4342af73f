#include "solvers/march/march.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/march/march_field.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

inline constexpr double linear_tolerance = 1e-10;  // of the Krylov solver within Newton's method

/// The members of March: the integrator or Newton solver, and the state of a march.
struct March::Impl {
  Impl(DepthModel& m, const DepthCells& d, double c, const MarchSettings& s, DepthRange cells);
  /// The depth at which PETSc evaluates a stage of the present cell. PETSc's s adds up round-off: slightly
  /// beyond its exit a cell would use the next knots, which this rank may not have.
  DepthPoint point(double s) const;
  void make_stepper();
  void make_newton();
  /// One step for each cell: from its entry s_{i-1}, of its length h_i.
  void set_step(TS stepper) const;
  void march_ts(const RowVisitor& row);
  /// The march with BDF2, cell by cell, by Newton's method. PETSc's TSBDF starts with a half step, which
  /// would not be the steady state of `upwind2`.
  void march_bdf2(const RowVisitor& row);
  /// Throws if the state is not finite (agreed), else calls `row`.
  void show(int cell, const RowVisitor& row);

  MarchField field;
  DepthModel& model;
  DepthCells depth;
  DepthRange range;
  MarchSettings settings;
  MPI_Comm comm;
  VecHandle u, residual;
  TSHandle ts;
  SNESHandle snes;
  std::unique_ptr<ShellMatrix> jacobian;
  // the linearisation point and the present cell
  Vec at = nullptr;
  DepthPoint at_point;
  int cell = 1;
  // bdf2: lead * u - known = F(u) / c
  VecHandle known, older;
  double lead = 0;
  const RowVisitor* visit = nullptr;
};

March::Impl::Impl(DepthModel& m, const DepthCells& d, double c, const MarchSettings& s, DepthRange cells)
    : field(m, d, c), model(m), depth(d), range(cells), settings(s), comm(field.comm()) {
  if (settings.method != "euler") require_field(model.spec(), "march.method = " + settings.method);
  if (settings.method == "bdf2" && !depth.equal())
    throw BadInput("march.method = bdf2: needs cells of equal length, without mesh.edges");
  const Index size = model.context().size();
  check(VecCreateMPI(comm, size, PETSC_DECIDE, u.out()));
  if (settings.method == "bdf2")
    make_newton();
  else
    make_stepper();
}

DepthPoint March::Impl::point(double s) const {
  // A depth within round-off of an end of the cell is taken for that end, with its bits.
  const double round_off = 1e-9 * depth.length(cell);
  for (const double end : {field.entry(cell).s, depth.exit(cell).s})
    if (std::abs(s - end) < round_off) return field.stage_point(cell, end);
  return field.stage_point(cell, s);
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
            const double h = me.depth.length(me.cell);
            {
              const ReadArray from(x);
              const WriteArray to(f);
              me.model.increment(me.field.entry(me.cell), me.field.step(me.cell), from.values, to.values);
            }
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
            // du/ds = F_s(u) / c
            me.field.field(me.point(s), 1 / me.field.speed(), x, f, nullptr);
          });
        },
        this));
    // y = F_s'(at) x / c
    jacobian = std::make_unique<ShellMatrix>(
        u, [this](Vec x, Vec y) { field.tangent(at_point, 1 / field.speed(), at, x, y); });
    check(TSSetRHSJacobian(
        ts, jacobian->get(), jacobian->get(),
        [](TS, PetscReal s, Vec x, Mat, Mat, void* context) {
          return guarded([&] {
            auto& me = *static_cast<Impl*>(context);
            me.at = x;
            me.at_point = me.point(s);
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
      if (++me.cell <= me.range.last) me.set_step(stepper);
      // Methods that reuse the last stage of the step before would use the weights of the layer before.
      if (me.settings.method == "rk" && me.field.constant_weights()) check(TSRestartStep(stepper));
    });
  }));
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  check(TSAdaptSetType(adapt, TSADAPTNONE));
  check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
  check(TSSetMaxTime(ts, std::numeric_limits<double>::max()));
  check(TSSetMaxSteps(ts, range.count()));
  check(TSSetErrorIfStepFails(ts, PETSC_FALSE));
  if (!layer_map && settings.method != "rk") {
    SNES newton = nullptr;
    check(TSGetSNES(ts, &newton));
    set_tolerances(newton, settings.tolerance, linear_tolerance);
  }
}

void March::Impl::show(int row_cell, const RowVisitor& row) {
  const ReadArray slab(u);
  double sum = 0;  // NaN and infinity survive it
  for (Index j = 0, count = model.context().size(); j < count; ++j) sum += slab.values[j] * 0.0;
  agree(comm, std::isfinite(sum), "the state is not finite at depth cell " + std::to_string(row_cell),
        ExitCode::numerical);
  row(row_cell, slab.values);
}

void March::Impl::set_step(TS stepper) const {
  check(TSSetTime(stepper, depth.depth(cell - 1)));
  check(TSSetTimeStep(stepper, depth.length(cell)));
}

void March::Impl::march_ts(const RowVisitor& row) {
  cell = range.first;
  visit = &row;
  check(TSSetStepNumber(ts, 0));
  set_step(ts);
  check(TSSolve(ts, u));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(ts, &reason));
  if (reason < 0)
    throw NumericalFailure("the march through depth stopped in cell " + std::to_string(cell) + " (" +
                           TSConvergedReasons[reason] + "); a smaller depth step (more mesh.cells) may help");
}

March::March(DepthModel& model, const DepthCells& depth, double speed, const MarchSettings& settings,
             DepthRange range)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings, range)) {}
March::~March() = default;

void March::run(const double* start, const RowVisitor& row, const double* older) {
  const Index size = impl_->model.context().size();
  std::copy_n(start, size, WriteArray(impl_->u).values);
  if (impl_->settings.method == "bdf2") {
    // BDF2 in cell i needs u_{i-2}, too; cell 1 is done by backward Euler.
    if (impl_->range.first > 1) std::copy_n(older, size, WriteArray(impl_->older).values);
    impl_->march_bdf2(row);
    return;
  }
  impl_->march_ts(row);
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
          // f = lead x - known - F(x) / c
          me.field.field(me.at_point, 1 / me.field.speed(), x, f, nullptr);
          check(VecAYPX(f, -1, x));
          check(VecAXPY(f, me.lead - 1, x));
          check(VecAXPY(f, -1, me.known));
        });
      },
      this));
  jacobian = std::make_unique<ShellMatrix>(u, [this](Vec x, Vec y) {
    // y = lead x - F'(at) x / c
    field.tangent(at_point, 1 / field.speed(), at, x, y);
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
  set_tolerances(snes, settings.tolerance, linear_tolerance);
}

void March::Impl::march_bdf2(const RowVisitor& row) {
  const double h = depth.length(1);
  for (cell = range.first; cell <= range.last; ++cell) {
    // lead u_i - known = F(u_i) / c, with the weights at the exit of the cell (docs/model.md, 3):
    //     BDF2            lead = 3 / 2h,   known = (4 u_{i-1} - u_{i-2}) / 2h
    //     backward Euler  lead = 1 / h,    known = u_{i-1} / h              in cell 1
    at_point = depth.exit(cell);
    if (cell == 1) {
      lead = 1 / h;
      check(VecCopy(u, known));
      check(VecScale(known, 1 / h));
    } else {
      lead = 3 / (2 * h);
      check(VecCopy(u, known));
      check(VecScale(known, 2 / h));
      check(VecAXPY(known, -1 / (2 * h), older));
    }
    // u_{i-1} becomes the u_{i-2} of the next cell, and is where Newton's method begins.
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

}  // namespace fluxformer
