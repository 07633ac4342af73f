#include "tests/support/reference_terms.hpp"

#include <cmath>

#include "tests/support/reference_attention.hpp"

namespace fluxformer::test::naive {
namespace {

using Row = std::vector<double>;

Row row_of(const Tokens& tokens, const Slab& u, int token, int sample) {
  const auto first = u.begin() + static_cast<std::ptrdiff_t>(tokens.at(token, sample, 0));
  return {first, first + tokens.width};
}

/// LayerNorm or RMSNorm; `bias` may be null.
Row normalised(const Row& x, const double* gain, const double* bias, const NormSettings& norm) {
  const auto d = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  if (norm.map == NormMap::layer) {
    for (const double value : x) mean += value / d;
  }
  for (const double value : x) variance += (value - mean) * (value - mean) / d;
  Row y;
  for (std::size_t c = 0; c < x.size(); ++c)
    y.push_back((x[c] - mean) / std::sqrt(variance + norm.eps) * gain[c] + (bias != nullptr ? bias[c] : 0));
  return y;
}

/// W x + b, W row-major with `rows` rows; `b` may be null.
Row affine(const double* w, const double* b, int rows, const Row& x) {
  Row y(static_cast<std::size_t>(rows), 0.0);
  if (b != nullptr) y.assign(b, b + rows);
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  return y;
}

double activation(Activation which, double x) {
  const double pi = std::acos(-1.0);
  switch (which) {
    case Activation::gelu_erf:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / 2 * (1 + std::tanh(x / 2));
    default:
      return x > 0 ? x : 0;
  }
}

}  // namespace

Slab token_diffusion(const Tokens& tokens, const Weights& weights, const Slab& u) {
  Slab out(tokens.size(), 0.0);
  for (int y = 0; y < tokens.y; ++y)
    for (int x = 0; x < tokens.x; ++x)
      for (int s = 0; s < tokens.samples; ++s)
        for (const auto& [dx, dy] : {std::pair{-1, 0}, {1, 0}, {0, -1}, {0, 1}}) {
          int x2 = x + dx, y2 = y + dy;
          if (tokens.periodic) x2 = (x2 + tokens.x) % tokens.x, y2 = (y2 + tokens.y) % tokens.y;
          if (x2 < 0 || x2 >= tokens.x || y2 < 0 || y2 >= tokens.y) continue;
          const int here = y * tokens.x + x, there = y2 * tokens.x + x2;
          if (!tokens.mask.real(s, here) || !tokens.mask.real(s, there)) continue;
          for (int c = 0; c < tokens.width; ++c)
            out[tokens.at(here, s, c)] += weights.diffusion.kappa[weights.diffusion.per_channel ? c : 0] *
                                          (u[tokens.at(there, s, c)] - u[tokens.at(here, s, c)]);
        }
  return out;
}

Slab token_transport(const Tokens& tokens, const Weights& weights, const Slab& u) {
  Slab out(tokens.size(), 0.0);
  if (weights.transport.nu == nullptr) return out;
  for (int y = 0; y < tokens.y; ++y)
    for (int x = tokens.periodic ? 0 : 1; x < tokens.x; ++x)
      for (int s = 0; s < tokens.samples; ++s) {
        const int here = y * tokens.x + x, west = y * tokens.x + (x + tokens.x - 1) % tokens.x;
        if (!tokens.mask.real(s, here) || !tokens.mask.real(s, west)) continue;
        for (int c = 0; c < tokens.width; ++c)
          out[tokens.at(here, s, c)] = -weights.transport.nu[weights.transport.per_channel ? c : 0] *
                                       (u[tokens.at(here, s, c)] - u[tokens.at(west, s, c)]);
      }
  return out;
}

Slab attention(const Tokens& tokens, const AttentionSettings& settings, const Weights& weights,
               const Slab& u) {
  return reference::attention({tokens.count(), tokens.samples, tokens.width, tokens.mask}, settings,
                              weights.attention, u);
}

Slab reaction(const Tokens& tokens, const ReactionSettings& settings, const Weights& weights, const Slab& u) {
  const ReactionWeights<const double>& w = settings.first_half ? weights.first_reaction : weights.reaction;
  Slab out(tokens.size(), 0.0);
  for (int x = 0; x < tokens.count(); ++x)
    for (int s = 0; s < tokens.samples; ++s) {
      const Row row = row_of(tokens, u, x, s);
      const Row normal = settings.layer_norm ? normalised(row, w.gain, w.bias, w.norm) : row;
      Row hidden = affine(w.w_1, w.b_1, settings.hidden, normal);
      if (settings.gated) {
        const Row gate = affine(w.w_g, w.b_g, settings.hidden, normal);
        for (std::size_t i = 0; i < gate.size(); ++i) hidden[i] *= activation(settings.activation, gate[i]);
      } else {
        for (double& value : hidden) value = activation(settings.activation, value);
      }
      const Row result = affine(w.w_2, w.b_2, tokens.width, hidden);
      for (int c = 0; c < tokens.width; ++c)
        out[tokens.at(x, s, c)] = *w.rho * result[static_cast<std::size_t>(c)];
    }
  return out;
}

std::vector<Slab> depth_transport(double speed, double spacing, int order, const std::vector<Slab>& u) {
  std::vector<Slab> out(u.size(), Slab(u[0].size(), 0.0));
  for (std::size_t i = 1; i < u.size(); ++i)
    for (std::size_t j = 0; j < u[i].size(); ++j)
      out[i][j] = order == 1 || i == 1
                      ? speed / spacing * (u[i - 1][j] - u[i][j])
                      : -speed / (2 * spacing) * (3 * u[i][j] - 4 * u[i - 1][j] + u[i - 2][j]);
  return out;
}

std::vector<Slab> depth_diffusion(double epsilon, double spacing, const std::vector<Slab>& u) {
  std::vector<Slab> out(u.size(), Slab(u[0].size(), 0.0));
  for (std::size_t i = 1; i < u.size(); ++i)
    for (std::size_t j = 0; j < u[i].size(); ++j) {
      const double next = i + 1 < u.size() ? u[i + 1][j] : u[i - 1][j];  // reflected at the outflow
      out[i][j] = epsilon * (next - 2 * u[i][j] + u[i - 1][j]) / (spacing * spacing);
    }
  return out;
}

}  // namespace fluxformer::test::naive
