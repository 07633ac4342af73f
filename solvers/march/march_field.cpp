#include "solvers/march/march_field.hpp"

#include "base/error.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer {

void require_field(const ModelSpec& spec, const std::string& setting) {
  if (spec.norm == Norm::post || spec.norm == Norm::sphere || !spec.residual)
    throw BadInput(setting + ": needs depth.norm = pre or none and depth.residual = on");
}

MarchField::MarchField(DepthModel& model, DepthCells depth, double speed)
    : model_(model), depth_(depth), speed_(speed) {
  require_marchable(model.spec(), depth, speed);
}

void MarchField::field(const DepthPoint& at, double scale, Vec x, Vec f) {
  const ZeroedArray to(f);
  const ReadArray from(x);
  // f = scale F(x), F = kappa Lap u + alpha A(u) + rho R(u): every part adds to it.
  for (const auto part : all_field_terms) model_.add_field(part, at, scale, from.values, to.values);
}

void MarchField::field_keeping(const DepthPoint& at, double scale, Vec x, Vec f, Tape& tape) {
  const WriteArray to(f);
  const ReadArray from(x);
  model_.field_keeping(at, scale, from.values, to.values, tape);
}

void MarchField::tangent(const DepthPoint& at, double scale, Vec x, Vec v, Vec f) {
  const ZeroedArray to(f);
  const ReadArray from(x), direction(v);
  // f = scale (dF/du) v, the parts as in `field`
  for (const auto part : all_field_terms)
    model_.add_field_tangent(part, at, scale, from.values, direction.values, to.values);
}

void MarchField::adjoint(const DepthPoint& at, double scale, Vec x, Vec w, Vec bar,
                         std::span<double> gradient) {
  const ZeroedArray to(bar);
  const ReadArray from(x), outer(w);
  // bar = scale (dF/du)^T w and gradient += scale (dF/dtheta)^T w, evaluating F again at x
  for (const auto part : all_field_terms)
    model_.add_field_adjoint(part, at, scale, from.values, outer.values, to.values, gradient);
}

void MarchField::kept_adjoint(const DepthPoint& at, double scale, Vec x, Tape& tape, Vec w, Vec bar,
                              std::span<double> gradient) {
  // The same products from the activations on the tape, for all parts at once
  const WriteArray to(bar);
  const ReadArray from(x), outer(w);
  model_.field_adjoint(at, scale, from.values, tape, outer.values, to.values, gradient);
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
