#pragma once

// DepthModel in one arithmetic: the slab terms, and a layer composed of them.

#include <array>
#include <memory>
#include <vector>

#include "model/depth_model.hpp"
#include "operators/attention/attention.hpp"
#include "operators/dropped_term.hpp"
#include "operators/reaction/reaction.hpp"
#include "operators/token_diffusion.hpp"

namespace fluxformer {

/// T: float or double, the arithmetic of the kernels (run.precision); states are double.
template <class T>
class SlabModel final : public DepthModel {
 public:
  /// Both are borrowed. Throws BadInput as the terms do.
  SlabModel(const Parameters& parameters, const SlabContext& context);

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
  void map_adjoint(const DepthPoint& at, double h, const double* u, Tape& tape, const double* w,
                   double* u_bar, std::span<double> parameters) override;
  void add_field(Mechanism part, const DepthPoint& at, double scale, const double* u, double* out) override;
  void add_field_tangent(Mechanism part, const DepthPoint& at, double scale, const double* u, const double* v,
                         double* out) override;
  void add_field_adjoint(Mechanism part, const DepthPoint& at, double scale, const double* u, const double* w,
                         double* u_bar, std::span<double> parameters) override;
  void add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) override;
  void attention_matrix(const DepthPoint& at, double h, const double* u, double* k) override;
  EquationCoefficients coefficients() const override;
  void prepare(std::span<const DepthPoint> points) override { weights_.prepare(points); }
  void refresh() override;

 private:
  using Weights = LayerWeights<const T>;
  using Buffer = std::vector<double>;
  enum class After { nothing, attention_norm, reaction_norm, half_norm, sphere };
  /// v = normalise(residual * u + fraction * h * (sum of terms)(u)).
  struct SubLayer {
    std::vector<SlabTerm<T>*> terms;
    double fraction;
    After after;
  };
  std::vector<SubLayer> compose();
  SlabTerm<T>* term(Mechanism part);
  /// The term under the context's dropout, if any.
  template <class Branch>
  SlabTerm<T>* dropped(Branch& term, std::size_t which);
  LayerWeights<const T> weights_at(const DepthPoint& at) {
    layer_ = at.layer;
    return weights_.at(at);
  }
  bool projected(Mechanism part) const { return spec().norm == Norm::sphere && part != Mechanism::diffusion; }

  /// One sub-layer: z = residual * u + flow(u), v = N(z). Without normalisation v may be z.
  void advance(const SubLayer& sub, const Weights& w, double h, const double* u, double* z, double* v);
  /// k += scale * step * (terms, or their midpoint rule over the step)(u)
  void add_flow(const SubLayer& sub, const Weights& w, double step, double scale, const double* u, double* k);
  void add_flow_tangent(const SubLayer& sub, const Weights& w, double step, const double* u, const double* v,
                        double* k);
  void add_flow_adjoint(const SubLayer& sub, const Weights& w, double step, const double* u,
                        const double* k_bar, double* u_bar, const LayerWeights<double>* gradient);
  /// What the first term of a sub-layer is added to: the residual, or `sum` set to zero.
  const double* begin_sum(const double* state, double* sum) const;
  /// Whether terms keep activations. Under the midpoint rule, which evaluates them twice, they are computed
  /// again.
  bool keeps_terms() const { return spec().subflow == Subflow::euler; }
  /// The midpoint u + step/2 * terms(u), in midpoint_.
  const double* midpoint(const SubLayer& sub, const Weights& w, double step, const double* u);

  /// v = N(z), z_bar += N'(z)^T v_bar, v = N'(z) z_dot for the normalisation after a sub-layer.
  void normalise(After after, const Weights& w, const double* z, double* v);
  void normalise_tangent(After after, const Weights& w, const double* z, const double* z_dot, double* v);
  void normalise_adjoint(After after, const Weights& w, const double* z, const double* v_bar, double* z_bar,
                         const LayerWeights<double>* gradient);
  void load_norm(After after, const Weights& w);

  double* buffer(std::size_t index);

  const Parameters& parameters_;
  const SlabContext& context_;
  DepthWeights<T> weights_;
  std::unique_ptr<TokenDiffusion<T>> diffusion_;  // none with a causal mask
  Attention<T> attention_;
  Reaction<T> reaction_;
  Reaction<T> first_reaction_;
  int layer_ = 1;  // the present one
  std::array<std::unique_ptr<DroppedTerm<T>>, 3> dropped_;
  double least_kappa_ = 0, largest_kappa_ = 0;
  std::vector<SubLayer> sub_layers_;
  std::vector<Buffer> buffers_;  // slabs, allocated on first use
  Buffer midpoint_, gain_, bias_;
};

extern template class SlabModel<float>;
extern template class SlabModel<double>;

}  // namespace fluxformer
