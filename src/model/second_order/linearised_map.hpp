#pragma once

// The layer map G_s(u; h) of one depth cell, linearised at one (theta, u, w): tangents in state and
// parameters, and the tangent of its adjoint (docs/model.md section 9). The part of the terms is in
// operators/slab_term.hpp.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/depth_weights.hpp"
#include "model/slab/slab_norm.hpp"
#include "model/slab/slab_terms.hpp"

namespace fluxformer {

/// One evaluation base + scale * (sum of terms)(input) within a sub-layer: one under forward Euler, two under
/// the midpoint rule.
struct SubLayerStage {
  double scale = 0;
  std::vector<double> input;                     ///< u, the argument of the terms
  std::vector<double> seed;                      ///< w, the adjoint of the result
  std::vector<double> input_dot;                 ///< u_dot along the direction
  std::vector<std::unique_ptr<TermTape>> parts;  ///< tape of each term; null: it keeps nothing
};

/// The tape of a sub-layer for second derivatives: one line of the layer map in docs/model.md section 2.
struct LinearisedSubLayer {
  std::vector<SubLayerStage> stages;
  std::vector<double> sum, sum_dot;  ///< the sum before the normalisation and its tangent, if there is one
  std::vector<double> result_bar;    ///< the adjoint of the result
};

/// The tape of one depth cell and one batch for Hessian products, filled by LinearisedMap: u and w of every
/// evaluation of the terms, the tapes of the terms, and the tangents along the last direction.
struct CellTape {
  std::vector<LinearisedSubLayer> sub_layers;
  /// Memory that the tape holds, in bytes.
  std::size_t bytes() const;
};

/// The layer map of a cell with first and second derivatives, in double. Vectors are slabs and do not
/// overlap. The calls for one tape have the same `at` and come in the order forward, backward, then for each
/// direction tangent and one of the two last. Collective over the token line.
class LinearisedMap {
 public:
  /// All objects are borrowed. `direction` has the layout of `parameters`. Throws BadInput for terms without
  /// a second derivative, and for dropout.
  LinearisedMap(const Parameters& parameters, const Parameters& direction, const SlabContext& context);

  /// v = G(u; h), h in layers divided by the speed c, the same for each use of `tape`.
  void forward(const DepthPoint& at, double h, const double* u, double* v, CellTape& tape);
  /// u_bar = (dG/du)^T w; gradient (the flat vector) += this rank's share of (dG/dtheta)^T w
  void backward(const DepthPoint& at, const double* w, double* u_bar, std::span<double> gradient,
                CellTape& tape);
  /// v_dot = (dG/du) u_dot + (dG/dtheta) direction
  void tangent(const DepthPoint& at, const double* u_dot, double* v_dot, CellTape& tape);
  /// The derivative of `backward` along (u_dot, direction, w_dot): u_bar_dot := and gradient_dot += .
  void backward_tangent(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                        std::span<double> gradient_dot, CellTape& tape);
  /// `backward` of w_dot, for products with the Gauss-Newton matrix.
  void gauss_newton(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                    std::span<double> gradient_dot, CellTape& tape);

  /// To be called after the parameters changed. Not collective.
  void refresh() { weights_.refresh(); }
  /// To be called after the direction changed. Not collective.
  void refresh_direction() { weights_dot_.refresh(); }
  /// Interpolates parameters and direction at these depths and keeps them.
  void prepare(std::span<const DepthPoint> points);
  /// Number of evaluations of each term in a sub-layer: 1, or 2 under the midpoint rule.
  std::size_t stages() const { return spec_.subflow == SubLayerIntegrator::midpoint ? 2 : 1; }

 private:
  using Slab = std::vector<double>;
  /// Applies term number k of a stage: result = base + the term, or its derivative, applied to `vector`.
  using TermCall = std::function<void(SlabTerm<double>& term, SubLayerStage& stage, Index k,
                                      const double* vector, const double* base, double* result)>;
  /// The pullback of a normalisation: from the adjoint of its result to that of its argument.
  using NormAdjoint = std::function<void(const SubLayer<double>& sub, LinearisedSubLayer& tape,
                                         const double* result_bar, double* sum_bar)>;

  void make_room(CellTape& tape, double h);
  /// result = base + the sum over the terms of a stage
  void add_terms(const SubLayer<double>& sub, SubLayerStage& stage, const double* vector, const double* base,
                 double* result, const TermCall& apply);
  /// The flow of a sub-layer on x (or x_dot), stage by stage; `kept` is where a stage keeps its input.
  void push(const SubLayer<double>& sub, LinearisedSubLayer& tape, Slab SubLayerStage::*kept, const double* x,
            double* sum, const TermCall& apply);
  /// The transpose of `push`: x_bar from sum_bar.
  void pull(const SubLayer<double>& sub, LinearisedSubLayer& tape, const double* sum_bar, double* x_bar,
            const TermCall& apply);
  /// The transposes of all sub-layers, from the last to the first.
  void pull_all(CellTape& tape, const double* w, double* u_bar, const NormAdjoint& norm,
                const TermCall& apply);

  const ModelSpec& spec_;
  const SlabContext& context_;
  DepthWeights<double> weights_, weights_dot_;
  int layer_ = 1;
  SlabTerms<double> terms_;
  SlabNorm<double> norm_;
  std::vector<SubLayer<double>> sub_layers_;
  Slab state_, middle_, sum_bar_, other_;
};

}  // namespace fluxformer
