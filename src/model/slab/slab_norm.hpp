#pragma once

// The normalisation after a sub-layer on a whole slab, with tangent and adjoint. In double whatever the
// arithmetic T of the weights: it acts on the residual stream.

#include <vector>

#include "model/slab/slab_terms.hpp"

namespace fluxformer {

/// Vectors are slabs; results are overwritten and overlap no input.
template <class T>
class SlabNorm {
 public:
  /// `context` is borrowed.
  explicit SlabNorm(const SlabContext& context) : context_(context) {}

  /// v = N(z); a zero row on the sphere gives NaN everywhere.
  void apply(After after, const LayerWeights<const T>& w, const double* z, double* v);
  /// v = N'(z) z_dot
  void tangent(After after, const LayerWeights<const T>& w, const double* z, const double* z_dot, double* v);
  /// z_bar = N'(z)^T v_bar; gradient (if not null) += that of gain and bias.
  void adjoint(After after, const LayerWeights<const T>& w, const double* z, const double* v_bar,
               double* z_bar, const LayerWeights<double>* gradient);
  /// v_dot = N'(z) z_dot + (dN/d gain, bias) w_dot
  void full_tangent(After after, const LayerWeights<const T>& w, const LayerWeights<const T>& w_dot,
                    const double* z, const double* z_dot, double* v_dot);
  /// The tangent of `adjoint` along (z_dot, w_dot, v_bar_dot): z_bar_dot, gradient_dot +=.
  void adjoint_tangent(After after, const LayerWeights<const T>& w, const LayerWeights<const T>& w_dot,
                       const double* z, const double* z_dot, const double* v_bar, const double* v_bar_dot,
                       double* z_bar_dot, const LayerWeights<double>& gradient_dot);

 private:
  /// Gain and bias in double.
  struct Loaded {
    std::vector<double> gain, bias;
    double eps = layer_norm_eps;
  };
  const Loaded& load(After after, const LayerWeights<const T>& w, Loaded& to) const;
  const SlabContext& context_;
  Loaded weights_, direction_;
};

/// Gain, bias and eps of the LayerNorm after a sub-layer; nulls if there is none.
template <class P>
struct NormWeights {
  P *gain = nullptr, *bias = nullptr;
  double eps = layer_norm_eps;
};
/// Its place in the weights of a layer, or in their gradient.
template <class P>
NormWeights<P> norm_weights(After after, const LayerWeights<P>& w) {
  switch (after) {
    case After::attention_norm:
      return {w.attention.gain, w.attention.bias, w.attention.eps};
    case After::reaction_norm:
      return {w.reaction.gain, w.reaction.bias, w.reaction.eps};
    case After::half_norm:
      return {w.first_reaction.gain, w.first_reaction.bias, w.first_reaction.eps};
    default:
      return {};
  }
}

extern template class SlabNorm<float>;
extern template class SlabNorm<double>;

}  // namespace fluxformer
