#include "tests/support/reference_model.hpp"

#include <cmath>
#include <functional>

namespace fluxformer::test::naive {
namespace {

Slab plus(const Slab& u, double factor, const Slab& v) {
  Slab w = u;
  for (std::size_t j = 0; j < w.size(); ++j) w[j] += factor * v[j];
  return w;
}

ReactionSettings reaction_settings(const ModelSpec& spec, bool first_half) {
  return {.hidden = spec.ffn,
          .activation = spec.activation,
          .layer_norm = spec.norm == Norm::pre,
          .first_half = first_half,
          .gated = spec.gated};
}

/// x - mean over sqrt(var + eps), times gain, plus bias (or null), row by row; for RMSNorm the mean is 0.
Slab normalised(const Slab& u, std::size_t d, const double* gain, const double* bias,
                const NormSettings& norm) {
  Slab v = u;
  for (std::size_t row = 0; row < u.size(); row += d) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < d && norm.map == NormMap::layer; ++c)
      mean += u[row + c] / static_cast<double>(d);
    for (std::size_t c = 0; c < d; ++c)
      variance += (u[row + c] - mean) * (u[row + c] - mean) / static_cast<double>(d);
    for (std::size_t c = 0; c < d; ++c)
      v[row + c] =
          (u[row + c] - mean) / std::sqrt(variance + norm.eps) * gain[c] + (bias != nullptr ? bias[c] : 0);
  }
  return v;
}

double row_product(const Slab& u, const Slab& v, std::size_t row, std::size_t d) {
  double sum = 0;
  for (std::size_t c = 0; c < d; ++c) sum += u[row + c] * v[row + c];
  return sum;
}

Slab to_sphere(const Slab& u, std::size_t d) {
  Slab v = u;
  for (std::size_t row = 0; row < u.size(); row += d)
    for (std::size_t c = 0; c < d; ++c) v[row + c] = u[row + c] / std::sqrt(row_product(u, u, row, d));
  return v;
}

/// f - u (u . f) / (u . u), row by row.
Slab tangent_part(const Slab& u, const Slab& f, std::size_t d) {
  Slab v = f;
  for (std::size_t row = 0; row < u.size(); row += d)
    for (std::size_t c = 0; c < d; ++c)
      v[row + c] -= u[row + c] * row_product(u, f, row, d) / row_product(u, u, row, d);
  return v;
}

}  // namespace

WeightsAt::WeightsAt(const Parameters& parameters, const DepthPoint& at) {
  const auto& spec = parameters.spec;
  // interval between knots (from 1), and position within it
  int knot = at.layer;
  double share = 0;
  if (spec.variation == DepthVariation::linear) {
    knot = 1;
    const auto position = [&](int k) {
      return spec.knots == 1 ? 0.0 : static_cast<double>(k - 1) * (spec.layers - 1) / (spec.knots - 1);
    };
    while (knot < spec.knots && position(knot + 1) <= at.s) ++knot;
    if (knot < spec.knots) share = (at.s - position(knot)) / (position(knot + 1) - position(knot));
  }
  const auto group = "layers/" + std::to_string(knot), next = "layers/" + std::to_string(knot + 1);
  for (const auto& view : parameters.layout.views()) {
    if (view.group != group) continue;
    const auto lower = parameters.view(view.path());
    auto& array = arrays_[view.name];
    array.assign(lower.begin(), lower.end());
    if (share == 0) continue;
    const auto upper = parameters.view(next + "/" + view.name);
    for (std::size_t j = 0; j < array.size(); ++j) array[j] += share * (upper[j] - lower[j]);
  }
  const auto alpha = parameters.view("equation/alpha"), rho = parameters.view("equation/rho");
  alpha_.assign(alpha.begin(), alpha.end());
  rho_.assign(rho.begin(), rho.end());
  for (const char* name : {"W_Q", "W_K", "W_V"})
    qkv_.insert(qkv_.end(), arrays_[name].begin(), arrays_[name].end());
  if (spec.qkv_have_biases())
    for (const char* name : {"b_Q", "b_K", "b_V"})
      b_qkv_.insert(b_qkv_.end(), arrays_[name].begin(), arrays_[name].end());

  // Null for arrays that the model does not have.
  const auto array = [&](const std::string& name) {
    const auto found = arrays_.find(name);
    return found != arrays_.end() ? std::as_const(found->second).data() : nullptr;
  };
  views_.attention = {.gain = array("norm1_gain"),
                      .bias = array("norm1_bias"),
                      .w_qkv = qkv_.data(),
                      .b_qkv = b_qkv_.empty() ? nullptr : b_qkv_.data(),
                      .w_o = array("W_O"),
                      .b_o = array("b_O"),
                      .q_gain = array("q_gain"),
                      .k_gain = array("k_gain"),
                      .alpha = alpha_.data(),
                      .norm = spec.norm_settings(),
                      .window = spec.window(at.layer)};
  const auto reaction = [&](const std::string& prefix, const std::string& norm) {
    return ReactionWeights<const double>{.gain = array(prefix + norm + "_gain"),
                                         .bias = array(prefix + norm + "_bias"),
                                         .w_g = array(prefix + "W_G"),
                                         .b_g = array(prefix + "b_G"),
                                         .w_1 = array(prefix + "W_1"),
                                         .b_1 = array(prefix + "b_1"),
                                         .w_2 = array(prefix + "W_2"),
                                         .b_2 = array(prefix + "b_2"),
                                         .rho = rho_.data(),
                                         .norm = spec.norm_settings()};
  };
  views_.reaction = reaction("", "norm2");
  views_.first_reaction = spec.own_halves ? reaction("half_", "norm") : views_.reaction;
  views_.diffusion = {array("kappa"), spec.kappa_per_channel};
  views_.transport = {array("nu"), spec.nu_per_channel};
}

Slab field(const Tokens& tokens, const Parameters& parameters, const DepthPoint& at, FieldTermKind part,
           const Slab& u) {
  const WeightsAt weights(parameters, at);
  const auto& spec = parameters.spec;
  if (part == FieldTermKind::diffusion) return token_diffusion(tokens, weights.views(), u);
  if (part == FieldTermKind::transport) return token_transport(tokens, weights.views(), u);
  const Slab f = part == FieldTermKind::attention
                     ? attention(tokens, spec.attention, weights.views(), u)
                     : reaction(tokens, reaction_settings(spec, false), weights.views(), u);
  return spec.norm == Norm::sphere ? tangent_part(u, f, static_cast<std::size_t>(spec.width)) : f;
}

Slab layer_map(const Tokens& tokens, const Parameters& parameters, const DepthPoint& at, double h,
               const Slab& u) {
  const WeightsAt at_depth(parameters, at);
  const auto& w = at_depth.views();
  const auto& spec = parameters.spec;
  const auto d = static_cast<std::size_t>(spec.width);
  using Flow = std::function<Slab(const Slab&)>;
  const Flow mix = [&](const Slab& v) {
    return plus(plus(token_diffusion(tokens, w, v), 1, token_transport(tokens, w, v)), 1,
                attention(tokens, spec.attention, w, v));
  };
  const Flow react = [&](const Slab& v) { return reaction(tokens, reaction_settings(spec, false), w, v); };
  const Flow first = [&](const Slab& v) { return reaction(tokens, reaction_settings(spec, true), w, v); };
  const Flow both = [&](const Slab& v) { return plus(mix(v), 1, react(v)); };
  const auto sub_layer = [&](const Flow& flow, double step, const double* gain, const double* bias,
                             const Slab& v) {
    const Slab from = spec.subflow == SubLayerIntegrator::midpoint ? plus(v, step / 2, flow(v)) : v;
    const Slab z = plus(spec.residual ? v : Slab(v.size(), 0.0), step, flow(from));
    if (spec.norm == Norm::post) return normalised(z, d, gain, bias, spec.norm_settings());
    return spec.norm == Norm::sphere ? to_sphere(z, d) : z;
  };
  const auto attend = [&](const Slab& v) { return sub_layer(mix, h, w.attention.gain, w.attention.bias, v); };
  switch (spec.order) {
    case SubLayerOrder::sequential:
      return sub_layer(react, h, w.reaction.gain, w.reaction.bias, attend(u));
    case SubLayerOrder::parallel:
      return sub_layer(both, h, w.attention.gain, w.attention.bias, u);
    default:
      return sub_layer(react, h / 2, w.reaction.gain, w.reaction.bias,
                       attend(sub_layer(first, h / 2, w.first_reaction.gain, w.first_reaction.bias, u)));
  }
}

}  // namespace fluxformer::test::naive
