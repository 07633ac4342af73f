// The PETSc callbacks of AdjointStepper.

#include "base/error.hpp"
#include "solvers/adjoint/adjoint_stepper.hpp"

namespace fluxformer {

void AdjointStepper::set_callbacks() {
  check(TSSetRHSFunction(
      ts_, nullptr,
      [](TS, PetscReal time, Vec x, Vec f, void* context) {
        return guarded([&] { static_cast<AdjointStepper*>(context)->right_hand_side(time, x, f); });
      },
      this));
  check(TSSetApplicationContext(ts_, this));
  check(TSSetPostStep(ts_, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      static_cast<AdjointStepper*>(context)->after_step();
    });
  }));
  if (!keeps_ && method_.explicit_stages()) return;  // no Jacobian needed
  jacobian_ = std::make_unique<ShellMatrix>(
      u_, [this](Vec x, Vec y) { field_.tangent(at_point_, field_.step(), at_, x, y); },
      [this](Vec x, Vec y) { transposed_product(x, y); });
  check(TSSetRHSJacobian(
      ts_, jacobian_->get(), jacobian_->get(),
      [](TS, PetscReal time, Vec x, Mat, Mat, void* context) {
        return guarded([&] {
          auto& me = *static_cast<AdjointStepper*>(context);
          me.at_ = x;
          me.at_point_ = me.point(time);
          me.jacobian_->changed();
        });
      },
      this));
}

void AdjointStepper::set_adjoint() {
  check(TSSetSaveTrajectory(ts_));
  TSTrajectory trajectory = nullptr;
  check(TSGetTrajectory(ts_, &trajectory));
  check(TSTrajectorySetType(trajectory, ts_, TSTRAJECTORYMEMORY));
  check(TSTrajectorySetSolutionOnly(trajectory, PETSC_FALSE));
  check(VecDuplicate(u_, lambda_.out()));
  lambda_list_ = lambda_;
  if (method_.explicit_stages()) {
    check(TSSetCostGradients(ts_, 1, &lambda_list_, nullptr));
    return;
  }
  // The gradient is added to our own vector when PETSc multiplies with the parameters' Jacobian; for PETSc
  // that product is one zero per rank.
  check(VecCreateMPI(field_.comm(), 1, PETSC_DECIDE, no_parameters_.out()));
  check(VecZeroEntries(no_parameters_));
  no_parameters_list_ = no_parameters_;
  check(TSSetCostGradients(ts_, 1, &lambda_list_, &no_parameters_list_));
  parameter_jacobian_ =
      std::make_unique<ShellMatrix>(u_, no_parameters_, ShellMatrix::Product{}, [this](Vec w, Vec zero) {
        parameter_product(w);
        check(VecZeroEntries(zero));
      });
  check(TSSetRHSJacobianP(
      ts_, parameter_jacobian_->get(),
      [](TS, PetscReal time, Vec x, Mat, void* context) {
        return guarded([&] {
          auto& me = *static_cast<AdjointStepper*>(context);
          me.parameters_at_ = x;
          me.parameters_at_point_ = me.point(time);
          me.parameters_share_ = me.share(time);
          me.parameter_jacobian_->changed();
        });
      },
      this));
}

}  // namespace fluxformer
