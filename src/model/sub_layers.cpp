#include "model/sub_layers.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"
#include "base/index.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

ReactionSettings reaction_of(const ModelSpec& spec, bool first_half) {
  return {.hidden = spec.ffn,
          .activation = spec.activation,
          .layer_norm = spec.norm == Norm::pre,
          .first_half = first_half,
          .gated = spec.gated};
}

/// Pointers to gain and bias of the norm after a sub-layer, null if there is none, and its map.
template <class P>
struct NormWeights {
  P *gain = nullptr, *bias = nullptr;
  NormSettings norm = {};
};
/// The norm after a sub-layer, in the weights of a layer or in their gradient.
template <class P>
NormWeights<P> norm_weights(After after, const LayerWeights<P>& theta) {
  switch (after) {
    case After::attention_norm:
      return {theta.attention.gain, theta.attention.bias, theta.attention.norm};
    case After::reaction_norm:
      return {theta.reaction.gain, theta.reaction.bias, theta.reaction.norm};
    case After::half_norm:
      return {theta.first_reaction.gain, theta.first_reaction.bias, theta.first_reaction.norm};
    default:
      return {};
  }
}

}  // namespace

template <class T>
SlabTerms<T>::SlabTerms(const ModelSpec& spec, const SlabContext& context, const int& layer,
                        Operands operands)
    : spec_(spec),
      context_(context),
      layer_(layer),
      attention_(context, spec.attention, operands),
      reaction_(context, reaction_of(spec, false), operands),
      first_reaction_(context, reaction_of(spec, true), operands) {
  if (!context.mask.causal) diffusion_ = std::make_unique<TokenDiffusion<T>>(context);
  if (spec.transport) transport_ = std::make_unique<TokenTransport<T>>(context);
}

template <class T>
SlabTerm<T>* SlabTerms<T>::dropped(SlabTerm<T>& term, Index which) {
  if (context_.dropout == nullptr) return &term;
  // Numbers of the masks within a layer: 0 attention, 1 reaction, 2 the first half of macaron.
  auto& place = dropped_[which];
  if (place == nullptr) place = std::make_unique<DroppedTerm<T>>(term, context_, layer_, which);
  return place.get();
}

template <class T>
SlabTerm<T>* SlabTerms<T>::term(FieldTermKind part) {
  switch (part) {
    case FieldTermKind::diffusion:
      return diffusion_.get();
    case FieldTermKind::transport:
      return transport_.get();
    case FieldTermKind::attention:
      return dropped(attention_, 0);
    case FieldTermKind::reaction:
      return dropped(reaction_, 1);
  }
  throw std::logic_error("unknown part of the field");
}

template <class T>
std::vector<SubLayer<T>> SlabTerms<T>::compose(const EquationCoefficients& of) {
  if (of.kappa.largest > 0 && diffusion_ == nullptr)
    throw BadInput(
        "attention.causal = on needs equation.kappa = 0: diffusion would carry information from later to "
        "earlier tokens");
  const bool post = spec_.norm == Norm::post, sphere = spec_.norm == Norm::sphere;
  const auto after = [&](After norm) { return post ? norm : sphere ? After::sphere : After::nothing; };
  // The lines of G in docs/model.md, section 2, with `mixing` = kappa Lap u - nu d/dx u + alpha A(u). The
  // normalisation after a sub-layer, N, is the identity for the norms pre and none; without residual the first
  // u, v or w of each line is missing.
  std::vector<SlabTerm<T>*> mixing;
  if (of.kappa.largest > 0) mixing.push_back(diffusion_.get());
  if (of.nu.largest > 0) mixing.push_back(transport_.get());
  mixing.push_back(term(FieldTermKind::attention));
  switch (spec_.order) {
    case SubLayerOrder::sequential:
      // v = N(u + h mixing(u)),  G = N(v + h rho R(v))
      return {{mixing, 1.0, after(After::attention_norm)},
              {{term(FieldTermKind::reaction)}, 1.0, after(After::reaction_norm)}};
    case SubLayerOrder::parallel:
      // G = N(u + h (mixing(u) + rho R(u)))
      mixing.push_back(term(FieldTermKind::reaction));
      return {{mixing, 1.0, after(After::attention_norm)}};
    case SubLayerOrder::macaron:
      // v = N(u + h/2 rho R(u)),  w = N(v + h mixing(v)),  G = N(w + h/2 rho R(w))
      return {{{dropped(first_reaction_, 2)}, 0.5, after(After::half_norm)},
              {mixing, 1.0, after(After::attention_norm)},
              {{term(FieldTermKind::reaction)}, 0.5, after(After::reaction_norm)}};
  }
  throw std::logic_error("unknown order of sub-layers");
}

template <class T>
const typename SlabNorm<T>::Loaded& SlabNorm<T>::load(After after, const LayerWeights<const T>& theta,
                                                      Loaded& to) const {
  const auto from = norm_weights(after, theta);
  // Weights in float are widened: the state is double.
  to.gain.assign(from.gain, from.gain + context_.width);
  if (from.bias != nullptr) to.bias.assign(from.bias, from.bias + context_.width);
  to.norm = from.norm;
  return to;
}

template <class T>
void SlabNorm<T>::apply(After after, const LayerWeights<const T>& theta, const double* z, double* v) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z, context_.size(), v);
    // v = z / |z|
    if (after == After::sphere && !project_to_sphere(v, rows, width))
      std::fill_n(v, context_.size(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  // v = gain (z - mean) / sqrt(variance + eps) + bias, row by row
  const auto& weights = load(after, theta, weights_);
  layer_norm<double>(z, d, rows, width, weights.norm, weights.gain.data(), weights.bias_or_null(), v, d);
}

template <class T>
void SlabNorm<T>::push(After after, const LayerWeights<const T>& theta,
                       const LayerWeights<const T>* theta_dot, Point z, double* v_dot) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z.u_dot, context_.size(), v_dot);
    // v_dot = (I - y y^T) z_dot / |z|, y = z / |z|
    if (after == After::sphere) sphere_tangent(z.u, v_dot, rows, width);
    return;
  }
  const auto& weights = load(after, theta, weights_);
  // v_dot = gain y_dot + gain_dot y + bias_dot, row by row, with y_dot = e - y mean(y e), sigma =
  // sqrt(variance + eps), y = (z - mean(z)) / sigma and e = (z_dot - mean(z_dot)) / sigma
  if (theta_dot == nullptr)
    return layer_norm_tangent<double>(z.u, z.u_dot, d, rows, width, weights.norm, weights.gain.data(), v_dot,
                                      d);
  const auto& along = load(after, *theta_dot, direction_);
  layer_norm_full_tangent<double>(z.u, z.u_dot, d, rows, width, weights.norm, weights.gain.data(),
                                  along.gain.data(), along.bias_or_null(), v_dot, d);
}

template <class T>
void SlabNorm<T>::pull(After after, const LayerWeights<const T>& theta, const double* z, const double* v_bar,
                       double* z_bar, const LayerWeights<double>* gradient) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(v_bar, context_.size(), z_bar);
    // The derivative of the projection is symmetric: its transpose is the tangent.
    if (after == After::sphere) sphere_tangent(z, z_bar, rows, width);
    return;
  }
  const auto& weights = load(after, theta, weights_);
  // z_bar = (g - mean(g) - y mean(y g)) / sigma, g = gain v_bar, with y and sigma as in the tangent;
  // gain_bar += y v_bar and bias_bar += v_bar, summed over the rows
  const auto bar = gradient != nullptr ? norm_weights(after, *gradient) : NormWeights<double>{};
  std::fill_n(z_bar, context_.size(), 0.0);
  layer_norm_adjoint<double>(z, d, v_bar, d, rows, width, weights.norm, weights.gain.data(), 1.0, z_bar,
                             bar.gain, bar.bias);
}

template <class T>
void SlabNorm<T>::pull_along(After after, const LayerWeights<const T>& theta,
                             const LayerWeights<const T>& theta_dot, Point z, Cotangent v_bar,
                             double* z_bar_dot, const LayerWeights<double>& gradient_dot) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing) {
    // The identity: z_bar_dot = v_bar_dot.
    std::copy_n(v_bar.w_dot, context_.size(), z_bar_dot);
    return;
  }
  if (after == After::sphere)
    // The sphere has no parameters: only z and v_bar move.
    return sphere_adjoint_tangent(z.u, z.u_dot, v_bar.w, v_bar.w_dot, rows, width, z_bar_dot);
  const auto& weights = load(after, theta, weights_);
  const auto& along = load(after, theta_dot, direction_);
  const auto bar_dot = norm_weights(after, gradient_dot);
  // d/de of the adjoint of LayerNorm along (z_dot, gain_dot, v_bar_dot); the bias has no part in it.
  std::fill_n(z_bar_dot, context_.size(), 0.0);
  layer_norm_adjoint_tangent<double>(z.u, z.u_dot, d, v_bar.w, v_bar.w_dot, d, rows, width, weights.norm,
                                     weights.gain.data(), along.gain.data(), 1.0, z_bar_dot, z_bar_dot,
                                     bar_dot.gain, bar_dot.bias);
}

template class SlabTerms<float>;
template class SlabTerms<double>;
template class SlabNorm<float>;
template class SlabNorm<double>;

}  // namespace fluxformer
