#include "solvers/march.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "solvers/march_impl.hpp"
#include "solvers/vector_arrays.hpp"

namespace fluxformer {

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
  const Filling to(f);
  const Reading from(x);
  for (const auto part : all_mechanisms) model.add_field(part, point, 1 / speed, from.values, to.values);
}

void March::Impl::field_tangent(const DepthPoint& point, Vec x, Vec v, Vec f) {
  const Filling to(f);
  const Reading from(x), direction(v);
  for (const auto part : all_mechanisms)
    model.add_field_tangent(part, point, 1 / speed, from.values, direction.values, to.values);
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
              const Reading from(x);
              const Writing to(f);
              me.model.increment(cell_entry(me.cell, me.depth.layers, me.depth.cells), h / me.speed,
                                 from.values, to.values);
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
    set_tolerances(newton);
  }
}

void March::Impl::show(int row_cell, const RowVisitor& row) {
  const Reading slab(u);
  double sum = 0;  // NaN and infinity survive it
  for (std::size_t j = 0; j < model.context().size(); ++j) sum += slab.values[j] * 0.0;
  agree(comm, std::isfinite(sum), "the state is not finite at depth cell " + std::to_string(row_cell),
        ExitCode::numerical);
  row(row_cell, slab.values);
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

March::March(DepthModel& model, DepthCells depth, double speed, const MarchSettings& settings)
    : impl_(std::make_unique<Impl>(model, depth, speed, settings)) {}
March::~March() = default;

void March::run(const double* inflow, const RowVisitor& row) {
  std::copy_n(inflow, impl_->model.context().size(), Writing(impl_->u).values);
  if (impl_->settings.method == "bdf2")
    impl_->march_bdf2(row);
  else
    impl_->march_ts(row);
}

}  // namespace fluxformer
