#pragma once

// DepthModel in one arithmetic: the slab terms, and a layer composed of them.

#include <memory>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/slab/slab_norm.hpp"
#include "model/slab/slab_terms.hpp"

namespace fluxformer {

/// A term of a sub-layer with the tape that it writes.
template <class T>
struct KeptTerm {
  SlabTerm<T>* term;
  std::unique_ptr<TermTape> kept;
};

/// The tape of one sub-layer, one line of G in docs/model.md section 2.
template <class T>
struct SubLayerTape {
  std::vector<double> input;       ///< empty for the first sub-layer: the caller has its input
  std::vector<double> sum;         ///< the sum before the normalisation; empty without one
  std::vector<KeptTerm<T>> parts;  ///< tapes of the terms, in their order
};

/// The tape of one application of the layer map, filled by SlabModel::map_keeping: for each sub-layer its
/// input, the sum before the normalisation, and the tapes of its terms.
template <class T>
class SlabTape final : public Tape {
 public:
  /// Makes room for `count` sub-layers.
  void resize(Index count) { sub_layers_.resize(count); }
  SubLayerTape<T>& operator[](Index index) { return sub_layers_[index]; }
  /// Makes room for the activations of these terms, reusing that of an earlier call with the same terms.
  static void hold(std::span<SlabTerm<T>* const> terms, SubLayerTape<T>& sub_layer);

  std::size_t bytes() const override;

 private:
  std::vector<SubLayerTape<T>> sub_layers_;
};

extern template class SlabTape<float>;
extern template class SlabTape<double>;

/// DepthModel in the arithmetic T of the kernels, float or double (run.precision); states are double.
template <class T>
class SlabModel final : public DepthModel {
 public:
  /// `parameters` and `context` are borrowed; `operands` are those of the linear maps of attention and
  /// reaction. Throws BadInput as the terms do.
  SlabModel(const Parameters& parameters, const SlabContext& context, Operands operands = Operands::exact);

  const ModelSpec& spec() const override { return parameters_.spec; }
  const SlabContext& context() const override { return context_; }
  void add_map(const DepthPoint& at, double h, double scale, const double* u, const double* base,
               double* out) override;
  void increment_tangent(const DepthPoint& at, double h, const double* u, const double* v,
                         double* out) override;
  void increment_adjoint(const DepthPoint& at, double h, const double* u, const double* w, double* u_bar,
                         std::span<double> parameters) override;
  std::unique_ptr<Tape> make_tape() const override;
  void map_keeping(const DepthPoint& at, double h, const double* u, double* v, Tape& tape) override;
  void map_tangent(const DepthPoint& at, double h, const double* u, Tape& tape, const double* u_dot,
                   double* v_dot) override;
  void map_adjoint(const DepthPoint& at, double h, const double* u, Tape& tape, const double* w,
                   double* u_bar, std::span<double> parameters) override;
  void add_field(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                 double* out) override;
  void add_field_tangent(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                         const double* v, double* out) override;
  void add_field_adjoint(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                         const double* w, double* u_bar, std::span<double> parameters) override;
  void field_keeping(const DepthPoint& at, double scale, const double* u, double* out, Tape& tape) override;
  void field_adjoint(const DepthPoint& at, double scale, const double* u, Tape& tape, const double* w,
                     double* u_bar, std::span<double> parameters) override;
  void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) override;
  void attention_state(const DepthPoint& at, double h, const double* u, double* v) override;
  void attention_matrix(const DepthPoint& at, double h, const double* u, double* k) override;
  void agree_on_coefficients(MPI_Comm comm) override;
  EquationCoefficients coefficients() const override;
  void prepare(std::span<const DepthPoint> points) override { weights_.prepare(points); }
  void refresh() override;

 private:
  using Weights = LayerWeights<const T>;
  using Buffer = std::vector<double>;
  /// The term of this kind; null if the model has none.
  SlabTerm<T>* term(FieldTermKind part);
  LayerWeights<const T> weights_at(const DepthPoint& at) {
    layer_ = at.layer;
    return weights_.at(at);
  }
  bool projected(FieldTermKind part) const {
    return spec().norm == Norm::sphere && part != FieldTermKind::diffusion;
  }

  /// One sub-layer: z = residual * u + flow(u), v = N(z). Without normalisation v may be z.
  void advance(const SubLayer<T>& sub, const Weights& theta, double h, const double* u, double* z, double* v);
  /// k += scale * step * (terms, or their midpoint rule over the step)(u)
  void add_flow(const SubLayer<T>& sub, const Weights& theta, double step, double scale, const double* u,
                double* k);
  void add_flow_tangent(const SubLayer<T>& sub, const Weights& theta, double step, const double* u,
                        const double* v, double* k);
  void add_flow_adjoint(const SubLayer<T>& sub, const Weights& theta, double step, const double* u,
                        const double* k_bar, double* u_bar, const LayerWeights<double>* gradient);
  /// The base that the first term of a sub-layer is added to: the residual, or `sum` set to zero.
  const double* begin_sum(const double* state, double* sum) const;
  /// True if terms keep activations. Under the midpoint rule, which evaluates them twice, they are computed
  /// again.
  bool keeps_terms() const { return spec().subflow == SubLayerIntegrator::euler; }
  /// The midpoint u + step/2 * (terms of sub)(u), in midpoint_.
  const double* midpoint(const SubLayer<T>& sub, const Weights& theta, double step, const double* u);

  /// The terms of the field F.
  std::vector<SlabTerm<T>*> field_terms();
  /// sum = base + step * (terms of `held`)(u), with activations if terms keep them.
  void add_keeping(SubLayerTape<T>& held, const Weights& theta, double step, const double* u,
                   const double* base, double* sum);
  /// The transpose of add_keeping: u_bar = base + step * (J of the terms at u)^T sum_bar.
  void add_kept_adjoint(SubLayerTape<T>& held, const Weights& theta, double step, const double* u,
                        const double* sum_bar, const double* base, double* u_bar,
                        const LayerWeights<double>* gradient);

  /// Scratch slab number `index`.
  double* buffer(Index index);

  const Parameters& parameters_;
  const SlabContext& context_;
  DepthWeights<T> weights_;
  int layer_ = 1;  // the layer that the terms work for (dropout)
  SlabTerms<T> terms_;
  SlabNorm<T> norm_;
  KappaRange kappa_;
  std::vector<SubLayer<T>> sub_layers_;
  std::vector<Buffer> buffers_;  // scratch slabs, allocated on first use
  Buffer midpoint_;
};

extern template class SlabModel<float>;
extern template class SlabModel<double>;

}  // namespace fluxformer
