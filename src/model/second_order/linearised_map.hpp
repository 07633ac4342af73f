#pragma once

// The layer map G_s(u; h) of one depth cell, linearised at one (theta, u, w): tangents in state and
// parameters, and the tangent of its adjoint. Specification of the terms' part: operators/second_order.hpp.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "model/depth_weights.hpp"
#include "model/slab/slab_norm.hpp"
#include "model/slab/slab_terms.hpp"
#include "operators/second_order.hpp"

namespace fluxformer {

// What the layer map keeps of one depth cell and one batch for Hessian products: u and w of every evaluation
// of the terms, what the terms keep, and the tangents along the last direction.

/// One evaluation base + scale * (sum of terms)(input) within a sub-layer: one under forward Euler, two under
/// the midpoint rule.
struct Stage {
  double scale = 0;
  std::vector<double> input;         ///< u
  std::vector<double> seed;          ///< w
  std::vector<double> input_dot;     ///< along the direction
  std::vector<Linearisation> parts;  ///< one per term
};

/// One line of the layer map in docs/model.md section 2.
struct SubLayerTape {
  std::vector<Stage> stages;
  std::vector<double> sum, sum_dot;  ///< before the normalisation, if there is one
  std::vector<double> result_bar;    ///< the adjoint of what it gives
};

/// The sub-layers of one cell, in their order. Filled by LinearisedMap.
struct CellTape {
  std::vector<SubLayerTape> sub_layers;
  /// Memory held, in bytes.
  std::size_t bytes() const;
};

/// In double. Vectors are slabs and do not overlap. The calls for one tape have the same `at` and come in the
/// order forward, backward, then for each direction tangent and one of the two last. Collective over the token
/// line.
class LinearisedMap {
 public:
  /// All are borrowed. `direction` has the layout of `parameters`. Throws BadInput for terms without a second
  /// derivative, and for dropout.
  LinearisedMap(const Parameters& parameters, const Parameters& direction, const SlabContext& context);

  /// v = G(u; h), h in layers divided by the speed c, the same for each use of `tape`.
  void forward(const DepthPoint& at, double h, const double* u, double* v, CellTape& tape);
  /// u_bar = (dG/du)^T w; gradient (the flat vector) += this rank's share of (dG/dtheta)^T w
  void backward(const DepthPoint& at, const double* w, double* u_bar, std::span<double> gradient,
                CellTape& tape);
  /// v_dot = (dG/du) u_dot + (dG/dtheta) direction
  void tangent(const DepthPoint& at, const double* u_dot, double* v_dot, CellTape& tape);
  /// The tangent of `backward` along (u_dot, direction, w_dot): u_bar_dot, gradient_dot +=.
  void backward_tangent(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                        std::span<double> gradient_dot, CellTape& tape);
  /// `backward` of w_dot, for products with the Gauss-Newton matrix.
  void gauss_newton(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                    std::span<double> gradient_dot, CellTape& tape);

  /// After the parameters changed. Not collective, as the next.
  void refresh() { weights_.refresh(); }
  /// After the direction changed.
  void refresh_direction() { weights_dot_.refresh(); }
  /// Interpolates and keeps parameters and direction at these depths.
  void prepare(std::span<const DepthPoint> points);
  /// How often `forward` and the others evaluate a term in a sub-layer: 1, or 2 under the midpoint rule.
  std::size_t stages() const { return spec_.subflow == SubLayerIntegrator::midpoint ? 2 : 1; }

 private:
  using Sub = SubLayer<double>;
  using Slab = std::vector<double>;
  /// Applies term number k of a stage: result = base + ...
  using Apply = std::function<void(SecondOrder<double>& term, Stage& stage, std::size_t k,
                                   const double* vector, const double* base, double* result)>;
  /// The pullback of a normalisation: from the adjoint of its result to that of its argument.
  using Norm =
      std::function<void(const Sub& sub, SubLayerTape& tape, const double* result_bar, double* sum_bar)>;

  void make_room(CellTape& tape, double h);
  /// result = base + sum over the terms of a stage.
  void add_terms(const Sub& sub, Stage& stage, const double* vector, const double* base, double* result,
                 const Apply& apply);
  /// The flow of a sub-layer on x (or x_dot), stage by stage; `kept` is where a stage keeps its input.
  void push(const Sub& sub, SubLayerTape& tape, Slab Stage::*kept, const double* x, double* sum,
            const Apply& apply);
  /// Its transpose: x_bar from sum_bar.
  void pull(const Sub& sub, SubLayerTape& tape, const double* sum_bar, double* x_bar, const Apply& apply);
  /// All sub-layers, last to first.
  void pull_all(CellTape& tape, const double* w, double* u_bar, const Norm& norm, const Apply& apply);

  const ModelSpec& spec_;
  const SlabContext& context_;
  DepthWeights<double> weights_, weights_dot_;
  int layer_ = 1;
  SlabTerms<double> terms_;
  SlabNorm<double> norm_;
  std::vector<Sub> sub_layers_;
  Slab state_, middle_, sum_bar_, other_;
};

}  // namespace fluxformer
