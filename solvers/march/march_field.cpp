#include "solvers/march/march_field.hpp"

#include "base/error.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer {

std::string without_field(const ModelSpec& spec) {
  if (spec.norm == Norm::post || spec.norm == Norm::sphere) return "depth.norm = " + to_word(spec.norm);
  return spec.residual ? "" : "depth.residual = false";
}

void require_field(const ModelSpec& spec, const std::string& setting) {
  if (!without_field(spec).empty())
    throw BadInput(setting + ": needs depth.norm = pre or none and depth.residual = on");
}

MarchField::MarchField(DepthModel& model, const DepthCells& depth, double speed)
    : model_(model), depth_(depth), speed_(speed) {
  require_marchable(model.spec(), depth, speed);
}

// F = kappa Lap u + alpha A(u) + rho R(u)

void MarchField::field(const DepthPoint& at, double scale, Vec x, Vec f, Tape* tape) {
  const ZeroedArray to(f);
  const ReadArray from(x);
  model_.field(all_field_terms, at, scale, from.values, to.values, tape);
}

void MarchField::tangent(const DepthPoint& at, double scale, Vec x, Vec v, Vec f) {
  const ZeroedArray to(f);
  const ReadArray from(x), direction(v);
  model_.push_field(all_field_terms, at, scale, {from.values, direction.values}, to.values);
}

void MarchField::adjoint(const DepthPoint& at, double scale, Vec x, Vec w, Vec bar,
                         std::span<double> gradient, Tape* tape) {
  const ZeroedArray to(bar);
  const ReadArray from(x), outer(w);
  model_.pull_field(all_field_terms, at, scale, from.values, outer.values, to.values, gradient, tape);
}

void set_tolerances(SNES snes, double newton, double linear) {
  KSP ksp = nullptr;
  PC pc = nullptr;
  check(SNESGetKSP(snes, &ksp));
  check(KSPGetPC(ksp, &pc));
  check(PCSetType(pc, PCNONE));
  check(KSPSetTolerances(ksp, linear, PETSC_DEFAULT, PETSC_DEFAULT, 1000));
  check(SNESSetTolerances(snes, PETSC_DEFAULT, newton, newton, 50, PETSC_DEFAULT));
}

}  // namespace fluxformer
