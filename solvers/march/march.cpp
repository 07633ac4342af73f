#include "solvers/march/march.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/march/march_impl.hpp"

namespace fluxformer {

March::Impl::Impl(DepthModel& m, DepthCells d, double c, const MarchSettings& s, DepthRange cells)
    : field(m, d, c), model(m), depth(d), range(cells), settings(s), comm(field.comm()) {
  if (settings.method != "euler") require_field(model.spec(), "march.method = " + settings.method);
  const auto size = static_cast<PetscInt>(model.context().size());
  check(VecCreateMPI(comm, size, PETSC_DECIDE, u.out()));
  if (settings.method == "bdf2")
    make_newton();
  else
    make_stepper();
}

DepthPoint March::Impl::point(double s) const {
  const double round_off = 1e-9 * depth.spacing();
  for (const double end : {field.entry(cell).s, cell_exit(cell, depth.layers, depth.cells).s})
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
            const double h = me.depth.spacing();
            {
              const ReadArray from(x);
              const WriteArray to(f);
              me.model.increment(me.field.entry(me.cell), me.field.step(), from.values, to.values);
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
            me.field.field(me.point(s), 1 / me.field.speed(), x, f);
          });
        },
        this));
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
      ++me.cell;
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

void March::Impl::march_ts(const RowVisitor& row) {
  cell = range.first;
  visit = &row;
  check(TSSetTime(ts, (range.first - 1) * depth.spacing()));
  check(TSSetStepNumber(ts, 0));
  check(TSSetTimeStep(ts, depth.spacing()));
  check(TSSolve(ts, u));
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(ts, &reason));
  if (reason < 0)
    throw NumericalFailure("the march through depth stopped in cell " + std::to_string(cell) + " (" +
                           TSConvergedReasons[reason] + "); a smaller depth step (more mesh.cells) may help");
}

March::March(DepthModel& model, DepthCells depth, double speed, const MarchSettings& settings,
             DepthRange range)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings, range)) {}
March::~March() = default;

void March::run(const double* start, const RowVisitor& row, const double* older) {
  const std::size_t size = impl_->model.context().size();
  std::copy_n(start, size, WriteArray(impl_->u).values);
  if (impl_->settings.method == "bdf2") {
    if (impl_->range.first > 1) std::copy_n(older, size, WriteArray(impl_->older).values);
    impl_->march_bdf2(row);
    return;
  }
  impl_->march_ts(row);
}

}  // namespace fluxformer
