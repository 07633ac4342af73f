#pragma once

// The normalisation after a sub-layer on a whole slab, with tangent and adjoint. In double whatever the
// arithmetic T of the weights: it acts on the residual stream.

#include <vector>

#include "model/slab/slab_terms.hpp"

namespace fluxformer {

/// The normalisation after a sub-layer and its derivatives. Vectors are slabs; results are overwritten and
/// overlap no input.
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
                  Point z, Seed v_bar, double* z_bar_dot, const LayerWeights<double>& gradient_dot);

 private:
  /// Gain and bias of a LayerNorm in double.
  struct Loaded {
    std::vector<double> gain, bias;
    double eps = layer_norm_eps;
  };
  const Loaded& load(After after, const LayerWeights<const T>& theta, Loaded& to) const;
  const SlabContext& context_;
  Loaded weights_, direction_;
};

/// Pointers to gain and bias of the LayerNorm after a sub-layer, null if there is none, and its eps.
template <class P>
struct NormWeights {
  P *gain = nullptr, *bias = nullptr;
  double eps = layer_norm_eps;
};
/// The LayerNorm after a sub-layer, in the weights of a layer or in their gradient.
template <class P>
NormWeights<P> norm_weights(After after, const LayerWeights<P>& theta) {
  switch (after) {
    case After::attention_norm:
      return {theta.attention.gain, theta.attention.bias, theta.attention.eps};
    case After::reaction_norm:
      return {theta.reaction.gain, theta.reaction.bias, theta.reaction.eps};
    case After::half_norm:
      return {theta.first_reaction.gain, theta.first_reaction.bias, theta.first_reaction.eps};
    default:
      return {};
  }
}

extern template class SlabNorm<float>;
extern template class SlabNorm<double>;

}  // namespace fluxformer
