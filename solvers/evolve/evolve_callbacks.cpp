// The PETSc callbacks of Evolve: right-hand side, implicit part, and the hooks around a step.

#include "base/error.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/evolve/evolve_impl.hpp"

namespace fluxformer {

void Evolve::Impl::register_callbacks() {
  const auto rhs = [](TS, PetscReal, Vec x, Vec f, void* context) {
    return guarded([&] {
      auto& me = *static_cast<Impl*>(context);
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
  check(KSPSetTolerances(ksp, 1e-12, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  PetscBool imex = PETSC_FALSE;
  check(PetscObjectTypeCompare(reinterpret_cast<PetscObject>(ts.get()), TSARKIMEX, &imex));
  if (imex == PETSC_TRUE) {
    // F(u, u') = u' - D u with D the implicit terms: linear, one linear solve per stage.
    implicit_jacobian = std::make_unique<ShellMatrix>(
        u,
        [this](Vec x, Vec y) {
          field.apply_tangent(equation.implicit_terms(), at, x, y);
          check(VecAYPX(y, -1, x));  // y := x - D x, then scaled below where the shift is not 1
          if (shift != 1) check(VecAXPY(y, shift - 1, x));
        },
        ShellMatrix::Product{},
        [this](Vec y) {
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
            check(VecAYPX(f, -1, x_dot));
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

}  // namespace fluxformer
