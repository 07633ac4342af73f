#pragma once

// The field F_s(u) with tangent and adjoint on PETSc vectors, and the parameters of a stage: the part of a
// model that the marches through depth need.

#include <petscsnes.h>

#include <span>
#include <string>

#include "model/depth_march.hpp"

namespace fluxformer {

/// The setting by which the model has no field F_s: depth.norm = post or sphere, depth.residual = false; "" if it
/// has one.
std::string without_field(const ModelSpec& spec);
/// Throws BadInput where there is no field F: norm post or sphere, residual off. `setting` is the one that
/// needs it: "march.method = rk".
void require_field(const ModelSpec& spec, const std::string& setting);

/// The field of a model on PETSc vectors, which hold one slab per rank of the token line.
class MarchField {
 public:
  /// `model` is borrowed. Throws BadInput as require_marchable does.
  MarchField(DepthModel& model, const DepthCells& depth, double speed);

  DepthModel& model() const { return model_; }
  const DepthCells& depth() const { return depth_; }
  double speed() const { return speed_; }
  /// h_i / c, the length of the step over a cell.
  double step(int cell) const { return depth_.length(cell) / speed_; }
  std::size_t size() const { return model_.context().size(); }
  MPI_Comm comm() const { return model_.context().line->comm(); }
  bool constant_weights() const { return model_.spec().variation == DepthVariation::constant; }

  /// The parameters of a stage of the step over `cell`, with s the depth of the stage. Constant weights: all
  /// stages of a step use the layer of its cell.
  DepthPoint stage_point(int cell, double s) const { return {depth_.entry(cell).layer, s}; }
  DepthPoint entry(int cell) const { return depth_.entry(cell); }

  /// f = scale F(x), keeping activations on `tape` if it is not null. Collective over the token line, as all
  /// calls below.
  void field(const DepthPoint& at, double scale, Vec x, Vec f, Tape* tape);
  /// f = scale F'(x) v
  void tangent(const DepthPoint& at, double scale, Vec x, Vec v, Vec f);
  /// bar = scale F'(x)^T w; gradient (or empty) += this rank's share of scale (dF/dtheta)^T w. `tape` is that
  /// of `field` at x, or null: F is evaluated again.
  void adjoint(const DepthPoint& at, double scale, Vec x, Vec w, Vec bar, std::span<double> gradient,
               Tape* tape);

 private:
  DepthModel& model_;
  DepthCells depth_;
  double speed_;
};

/// Sets up Newton's method without a preconditioner: attention is dense over tokens, so that there is no
/// matrix to build one from. `newton` is the relative tolerance of residual and step, `linear` that of the
/// Krylov solver.
void set_tolerances(SNES snes, double newton, double linear);

}  // namespace fluxformer
