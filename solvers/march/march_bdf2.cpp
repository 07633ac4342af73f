// The march with BDF2, cell by cell, by Newton's method. PETSc's TSBDF starts with a half step, which would
// not be the steady state of `upwind2`.

#include "base/error.hpp"
#include "solvers/march/march_impl.hpp"

namespace fluxformer {

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
          me.field.field(me.at_point, 1 / me.field.speed(), x, f);
          check(VecAYPX(f, -1, x));
          check(VecAXPY(f, me.lead - 1, x));
          check(VecAXPY(f, -1, me.known));
        });
      },
      this));
  jacobian = std::make_unique<ShellMatrix>(u, [this](Vec x, Vec y) {
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
  const double h = depth.spacing();
  for (cell = range.first; cell <= range.last; ++cell) {
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

}  // namespace fluxformer
