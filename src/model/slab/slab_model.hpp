#pragma once

// DepthModel in one arithmetic: the slab terms, and a layer composed of them.

#include <memory>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/slab/layer_map.hpp"
#include "model/slab/slab_terms.hpp"

namespace fluxformer {

/// DepthModel in the arithmetic T of the kernels, float or double (run.precision); states are double.
template <class T>
class SlabModel final : public DepthModel {
 public:
  /// `parameters` and `context` are borrowed; `operands` are those of the linear maps of attention and
  /// reaction. Throws BadInput as the terms do.
  SlabModel(const Parameters& parameters, const SlabContext& context, Operands operands = Operands::exact);

  const ModelSpec& spec() const override { return parameters_.spec; }
  const SlabContext& context() const override { return context_; }
  std::unique_ptr<Tape> make_tape(Order upto) const override;
  void map(const DepthPoint& at, double h, const double* u, double* v, Tape* tape) override;
  void push(const DepthPoint& at, double h, Point point, std::span<const double> direction, double* v_dot,
            Tape* tape) override;
  void pull(const DepthPoint& at, double h, const double* u, const double* w, double* u_bar,
            std::span<double> parameters, Tape* tape, Order keep) override;
  void pull_along(const DepthPoint& at, double h, Point point, const double* w_dot,
                  std::span<const double> direction, double* u_bar_dot, std::span<double> parameters_dot,
                  Tape& tape) override;
  void add_map(const DepthPoint& at, double h, double scale, const double* u, const double* base,
               double* out) override;
  void field(std::span<const FieldTermKind> parts, const DepthPoint& at, const double* u, Sum out,
             Tape* tape) override;
  void push_field(std::span<const FieldTermKind> parts, const DepthPoint& at, Point point, Sum out) override;
  void pull_field(std::span<const FieldTermKind> parts, const DepthPoint& at, const double* u,
                  const double* w, Sum u_bar, std::span<double> parameters, Tape* tape) override;
  void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) override;
  void attention(const DepthPoint& at, double h, const double* u, double* v, double* k) override;
  void agree_on_coefficients(MPI_Comm comm) override;
  EquationCoefficients coefficients() const override;
  void prepare(std::span<const DepthPoint> points) override { weights_.prepare(points); }
  void refresh() override;

 private:
  using Weights = LayerWeights<const T>;
  Weights weights_at(const DepthPoint& at) {
    layer_ = at.layer;
    return weights_.at(at);
  }
  /// body(where the gradient is added to, or null if `parameters` is empty).
  template <class Body>
  void with_gradient(const DepthPoint& at, std::span<double> parameters, Body&& body);
  /// The term of this part; null if the model has none.
  SlabTerm<T>* term_of(FieldTermKind part);
  /// call(term, its number, whether it is projected to the sphere, where to add) for each of these parts.
  template <class Call>
  void add_parts(std::span<const FieldTermKind> parts, Sum out, Call&& call);
  bool projected(FieldTermKind part) const {
    return spec().norm == Norm::sphere && part != FieldTermKind::diffusion;
  }
  /// sum.out := sum.base.
  double* started(Sum sum) const;
  /// One part of the field on the sphere, projected to the tangent space at u, and its derivatives.
  void add_projected(SlabTerm<T>& term, const Weights& theta, const double* u, Sum sum);
  void add_projected_push(SlabTerm<T>& term, const Weights& theta, Point point, Sum sum);
  void add_projected_pull(SlabTerm<T>& term, const Weights& theta, const double* u, const double* w, Sum sum,
                          const LayerWeights<double>* gradient);
  /// Scratch slab number `index`.
  double* buffer(Index index);

  const Parameters& parameters_;
  const SlabContext& context_;
  DepthWeights<T> weights_;
  int layer_ = 1;  // the layer that the terms work for (dropout)
  SlabTerms<T> terms_;
  LayerMap<T> map_;
  KappaRange kappa_;
  std::vector<std::vector<double>> buffers_;  // scratch slabs, allocated on first use
};

extern template class SlabModel<float>;
extern template class SlabModel<double>;

}  // namespace fluxformer
