#pragma once

// The layer map G_s(u; h) of one depth cell, composed of its sub-layers (docs/model.md section 2), and its
// derivatives: two walks through the sub-layers, one forward and one backward, whatever is computed.
//
//   sub-layer     sum = (residual) x + flow(x), y = N(sum); x is the result of the sub-layer before
//   flow          Euler: step F(x)    midpoint: step F(x + step/2 F(x))     step = fraction * h
//
// F is the sum of the sub-layer's terms, N its normalisation.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/sub_layers.hpp"

namespace fluxformer {

/// The slabs that a walk forward makes.
struct LayerTrace {
  /// The argument of each evaluation of F: one for each sub-layer under Euler, two under the midpoint rule.
  /// That of the first one is the caller's.
  std::vector<std::vector<double>> argument;
  std::vector<std::vector<double>> sum;  ///< of each sub-layer; empty without normalisation

  /// Memory held, in bytes.
  std::size_t bytes() const;
};

/// A term with the tape of one of its evaluations; null if it keeps nothing.
template <class T>
struct TapedTerm {
  const SlabTerm<T>* term;
  std::unique_ptr<TermTape> tape;
};

/// The tapes of the terms of one evaluation.
template <class T>
using TapedTerms = std::vector<TapedTerm<T>>;

/// Makes tapes of these terms (none without an order), unless `taped` holds them already: later passes write
/// over them. Throws BadInput as SlabTerm::make_tape does.
template <class T>
void hold(const std::vector<SlabTerm<T>*>& terms, std::optional<Order> upto, TapedTerms<T>& taped);

/// The tape of one application of the layer map, or of the field (then a single evaluation).
template <class T>
class LayerTape final : public Tape {
 public:
  explicit LayerTape(Order order) : upto(order) {}
  std::size_t bytes() const override;
  /// The tape of a term in one of the evaluations; null if it keeps nothing.
  TermTape* tape(Index evaluation, Index number) { return terms[evaluation][number].tape.get(); }

  const Order upto;
  LayerTrace state;                  ///< of `apply`
  std::vector<TapedTerms<T>> terms;  ///< of each evaluation
  LayerTrace direction;              ///< second order: of the last `push` along weights
  /// second order: the vectors that `pull` multiplied with the transpose of each evaluation, and of each N
  std::vector<std::vector<double>> cotangent, result_bar;
};

/// The layer map with first and second derivatives in the arithmetic T of the kernels. `theta` are the
/// weights at the depth of the cell, h is in layers divided by the speed c. A null tape computes again what
/// it would hold. Vectors are slabs; results are overwritten and overlap nothing. Collective over the token
/// line.
template <class T>
class LayerMap {
 public:
  using Weights = LayerWeights<const T>;  ///< the weights of a layer in T
  /// Both are borrowed.
  LayerMap(const ModelSpec& spec, const SlabContext& context);
  /// To be called before the others, and again when the terms change.
  void set(std::vector<SubLayer<T>> sub_layers) { sub_layers_ = std::move(sub_layers); }
  /// Throws BadInput where a term has no derivatives of this order.
  void require(Order upto) const;

  /// v = G(u; h)
  void apply(const Weights& theta, double h, const double* u, double* v, LayerTape<T>* tape) {
    apply(theta, h, u, v, tape, std::ssize(sub_layers_));
  }
  /// v_dot = (dG/du) u_dot + (dG/dtheta) theta_dot; theta_dot may be null: the weights do not vary.
  void push(const Weights& theta, const Weights* theta_dot, double h, Point at, double* v_dot,
            LayerTape<T>* tape);
  /// u_bar = (dG/du)^T w; gradient (if not null) += this rank's share of (dG/dtheta)^T w. `keep` = second:
  /// keeps what pull_along needs on a tape of second order. Otherwise the tape stays as it is.
  void pull(const Weights& theta, double h, const double* u, const double* w, double* u_bar,
            const LayerWeights<double>* gradient, LayerTape<T>* tape, Order keep);
  /// The derivative of the last `pull` that kept along the direction (theta_dot, u_dot) of the last push and
  /// w_dot: u_bar_dot := and gradient_dot += .
  void pull_along(const Weights& theta, const Weights& theta_dot, double h, Point at, const double* w_dot,
                  double* u_bar_dot, const LayerWeights<double>& gradient_dot, LayerTape<T>& tape);
  /// v = the result of the first sub-layer.
  void apply_first(const Weights& theta, double h, const double* u, double* v) {
    apply(theta, h, u, v, nullptr, 1);
  }

 private:
  using Slab = std::vector<double>;
  Index stages() const { return spec_.subflow == SubLayerIntegrator::midpoint ? 2 : 1; }
  /// The step of evaluation `stage` = 0 .. stages() - 1 of a sub-layer.
  double step(const SubLayer<T>& sub, Index stage, double h) const {
    return sub.fraction * h * (stage + 1 < stages() ? 0.5 : 1.0);
  }
  void make_room(LayerTrace& trace) const;
  const double* residual_or_zero(const double* x, double* out) const;
  void apply(const Weights& theta, double h, const double* u, double* v, LayerTape<T>* tape, Index count);
  /// y = the walk of x through the first `count` sub-layers; with y null, as far as it makes the trace.
  /// term(term, number of the evaluation, number of the term, argument, where to add) evaluates one term,
  /// norm(after, number of the sub-layer, sum, result) a normalisation.
  template <class TermCall, class NormCall>
  void walk_forward(Index count, double h, const double* x, double* y, LayerTrace& trace, TermCall&& term,
                    NormCall&& norm);
  /// The transpose of walk_forward; the arguments of `term` and `norm` are adjoints.
  template <class TermCall, class NormCall>
  void walk_back(double h, const double* w, double* u_bar, TermCall&& term, NormCall&& norm);
  /// The trace of the state: that of the tape, or computed.
  const LayerTrace& known_state(const Weights& theta, double h, const double* u, LayerTape<T>* tape);

  const ModelSpec& spec_;
  const SlabContext& context_;
  std::vector<SubLayer<T>> sub_layers_;
  SlabNorm<T> norm_;
  LayerTrace state_, direction_;          // of calls without tape
  Slab sum_bar_, middle_bar_, turns_[2];  // allocated on first use
};

extern template class LayerMap<float>;
extern template class LayerMap<double>;
extern template class LayerTape<float>;
extern template class LayerTape<double>;

}  // namespace fluxformer
