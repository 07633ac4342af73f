#pragma once

// The sub-layers of one layer (docs/model.md section 2): which terms act in which order, and the
// normalisation after each.

#include <array>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "model/depth_model.hpp"
#include "model/parameters.hpp"
#include "operators/attention/attention.hpp"
#include "operators/dropout.hpp"
#include "operators/reaction/reaction.hpp"
#include "operators/token_diffusion.hpp"
#include "operators/token_transport.hpp"

namespace fluxformer {

/// The normalisation after a sub-layer: the norm of attention, of the reaction or of the first half
/// step, or the projection to the sphere.
enum class After { nothing, attention_norm, reaction_norm, half_norm, sphere };

/// A sub-layer: v = normalise(residual * u + fraction * h * (sum of terms)(u)).
template <class T>
struct SubLayer {
  std::vector<SlabTerm<T>*> terms;
  double fraction;
  After after;
};

/// The terms of a model on one slab, which it owns, and their order.
template <class T>
class SlabTerms {
 public:
  /// `spec` and `context` are borrowed, as is `layer`, the number of the present layer (for dropout). Throws
  /// BadInput as the terms do.
  SlabTerms(const ModelSpec& spec, const SlabContext& context, const int& layer,
            Operands operands = Operands::exact);

  /// The sub-layers in their order; token diffusion and transport take part where the largest kappa or nu is
  /// positive. Throws BadInput for token diffusion with a causal mask.
  std::vector<SubLayer<T>> compose(const EquationCoefficients& of);
  /// The term of this kind; null for token diffusion with a causal mask, and for transport that the model does
  /// not have.
  SlabTerm<T>* term(FieldTermKind part);
  /// The token diffusion; null with a causal mask.
  TokenDiffusion<T>* diffusion() { return diffusion_.get(); }
  Attention<T>& attention() { return attention_; }

 private:
  /// The term under the dropout of the context, or the term itself without dropout.
  SlabTerm<T>* dropped(SlabTerm<T>& term, Index which);

  const ModelSpec& spec_;
  const SlabContext& context_;
  const int& layer_;
  std::unique_ptr<TokenDiffusion<T>> diffusion_;
  std::unique_ptr<TokenTransport<T>> transport_;
  Attention<T> attention_;
  Reaction<T> reaction_, first_reaction_;
  std::array<std::unique_ptr<DroppedTerm<T>>, 3> dropped_;
};

/// The normalisation N after a sub-layer on a whole slab, and its derivatives. In double whatever the
/// arithmetic T of the weights: it acts on the residual stream. Vectors are slabs; results are overwritten
/// and overlap no input.
template <class T>
class SlabNorm {
 public:
  /// `context` is borrowed.
  explicit SlabNorm(const SlabContext& context) : context_(context) {}

  /// v = N(z); a zero row on the sphere gives NaN everywhere.
  void apply(After after, const LayerWeights<const T>& theta, const double* z, double* v);
  /// v_dot = N'(z) z_dot + (dN/d(gain, bias)) theta_dot; theta_dot may be null: the weights do not vary.
  void push(After after, const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point z,
            double* v_dot);
  /// z_bar = N'(z)^T v_bar; gradient (if not null) += the gradient in gain and bias
  void pull(After after, const LayerWeights<const T>& theta, const double* z, const double* v_bar,
            double* z_bar, const LayerWeights<double>* gradient);
  /// The derivative of `pull` along (z_dot, theta_dot, v_bar_dot): z_bar_dot := and gradient_dot += .
  void pull_along(After after, const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                  Point z, Cotangent v_bar, double* z_bar_dot, const LayerWeights<double>& gradient_dot);

 private:
  /// Gain and bias (or none) of a norm in double.
  struct Loaded {
    std::vector<double> gain, bias;
    NormSettings norm = {};
    const double* bias_or_null() const { return bias.empty() ? nullptr : bias.data(); }
  };
  const Loaded& load(After after, const LayerWeights<const T>& theta, Loaded& to) const;
  const SlabContext& context_;
  Loaded weights_, direction_;
};

extern template class SlabTerms<float>;
extern template class SlabTerms<double>;
extern template class SlabNorm<float>;
extern template class SlabNorm<double>;

}  // namespace fluxformer
