// Step limits of implicit-explicit methods: the documented limits against a scan of PETSc's own steps.

#include <gtest/gtest.h>

#include <complex>
#include <numbers>
#include <string>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/evolve/step_limits.hpp"
#include "tests/unit/solvers/evolve/upwind_symbol.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// |R| of one step of PETSc's implicit-explicit method on z' = explicit_part z + implicit_part z, |z| = 1
/// before.
class ImplicitExplicitStep {
 public:
  explicit ImplicitExplicitStep(const std::string& variant) {
    check(TSCreate(MPI_COMM_SELF, ts_.out()));
    check(TSSetType(ts_, TSARKIMEX));
    check(TSARKIMEXSetType(ts_, variant.c_str()));
    check(VecCreateSeq(MPI_COMM_SELF, 2, z_.out()));
    check(MatCreateSeqDense(MPI_COMM_SELF, 2, 2, nullptr, matrix_.out()));
    check(TSSetRHSFunction(ts_, nullptr, rhs, this));
    check(TSSetIFunction(ts_, nullptr, residual, this));
    check(TSSetIJacobian(ts_, matrix_, matrix_, jacobian, this));
    SNES snes = nullptr;
    KSP ksp = nullptr;
    PC pc = nullptr;
    TSAdapt adapt = nullptr;
    check(TSGetSNES(ts_, &snes));
    check(SNESSetType(snes, SNESKSPONLY));
    check(SNESGetKSP(snes, &ksp));
    check(KSPSetType(ksp, KSPPREONLY));
    check(KSPGetPC(ksp, &pc));
    check(PCSetType(pc, PCLU));
    check(TSGetAdapt(ts_, &adapt));
    check(TSAdaptSetType(adapt, TSADAPTNONE));
    check(TSSetExactFinalTime(ts_, TS_EXACTFINALTIME_STEPOVER));
    check(TSSetMaxTime(ts_, 1e9));
    check(TSSetMaxSteps(ts_, 1));
  }
  TS ts() const { return ts_; }
  double amplification(Complex explicit_part, double implicit_part) {
    explicit_ = explicit_part;
    implicit_ = implicit_part;
    check(VecSetValue(z_, 0, 1, INSERT_VALUES));
    check(VecSetValue(z_, 1, 0, INSERT_VALUES));
    check(TSSetTime(ts_, 0));
    check(TSSetTimeStep(ts_, 1));
    check(TSSetStepNumber(ts_, 0));
    check(TSRestartStep(ts_));
    check(TSSolve(ts_, z_));
    PetscReal norm = 0;
    check(VecNorm(z_, NORM_2, &norm));
    return norm;
  }

 private:
  static PetscErrorCode rhs(TS, PetscReal, Vec x, Vec f, void* self) {
    return guarded([&] {
      const ReadArray from(x);
      const WriteArray to(f);
      const Complex rate =
          static_cast<ImplicitExplicitStep*>(self)->explicit_ * Complex(from.values[0], from.values[1]);
      to.values[0] = rate.real(), to.values[1] = rate.imag();
    });
  }
  static PetscErrorCode residual(TS, PetscReal, Vec x, Vec x_dot, Vec f, void* self) {
    return guarded(
        [&] { check(VecWAXPY(f, -static_cast<ImplicitExplicitStep*>(self)->implicit_, x, x_dot)); });
  }
  static PetscErrorCode jacobian(TS, PetscReal, Vec, Vec, PetscReal shift, Mat matrix, Mat, void* self) {
    return guarded([&] {
      check(MatZeroEntries(matrix));
      for (const PetscInt i : {0, 1})
        check(MatSetValue(matrix, i, i, shift - static_cast<ImplicitExplicitStep*>(self)->implicit_,
                          INSERT_VALUES));
      check(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
      check(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
    });
  }
  TSHandle ts_;
  VecHandle z_;
  MatHandle matrix_;
  Complex explicit_;
  double implicit_ = 0;
};

double largest_amplification(ImplicitExplicitStep& step, int order, double nu) {
  double largest = 0;
  constexpr int waves = 60;
  for (int k = 0; k <= waves; ++k)
    for (const double mu : {0.0, 0.02, 0.1, 0.3, 0.7, 1.5, 4.0, 10.0, 1e3, 1e6}) {
      const double theta = std::numbers::pi * k / waves;
      largest = std::max(largest,
                         step.amplification(-nu * upwind_symbol(order, theta), -mu * (1 - std::cos(theta))));
    }
  return largest;
}

TEST(StepLimits, of_implicit_explicit_methods_hold_with_diffusion_of_any_strength) {
  for (const std::string variant :
       {"1bee", "a2", "l2", "ars122", "ars443", "2c", "2d", "2e", "prssp2", "bpr3", "3", "4", "5"}) {
    ImplicitExplicitStep step(variant);
    // 1e-10: the linear solves
    const double upwind = method_limits(step.ts(), DepthScheme::upwind).transport;
    EXPECT_LE(largest_amplification(step, 1, upwind), 1 + 1e-10) << variant;
    if (variant == "1bee" || variant == "a2" || variant == "ars122" || variant == "bpr3") {
      EXPECT_THROW(method_limits(step.ts(), DepthScheme::upwind2), BadInput);
      EXPECT_GT(largest_amplification(step, 2, 0.25), 1 + 1e-6) << variant;
    } else {
      const double upwind2 = method_limits(step.ts(), DepthScheme::upwind2).transport;
      EXPECT_LE(largest_amplification(step, 2, upwind2), 1 + 1e-10) << variant;
    }
  }
}

}  // namespace
}  // namespace fluxformer
