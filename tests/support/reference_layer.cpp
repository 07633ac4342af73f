#include "tests/support/reference_layer.hpp"

#include <cmath>
#include <numbers>

namespace fluxformer::reference {
namespace {

double or_zero(const double* bias, std::size_t j) {
  return bias != nullptr ? bias[j] : 0;
}

}  // namespace

Rows layer_norm(const Rows& x, int width, const double* gain, const double* bias, double eps) {
  const auto d = static_cast<std::size_t>(width);
  Rows y(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double mean = 0;
    for (std::size_t j = 0; j < d; ++j) mean += x[row + j] / width;
    double variance = 0;
    for (std::size_t j = 0; j < d; ++j) variance += (x[row + j] - mean) * (x[row + j] - mean) / width;
    for (std::size_t j = 0; j < d; ++j) {
      y[row + j] = (x[row + j] - mean) / std::sqrt(variance + eps) * gain[j] + or_zero(bias, j);
    }
  }
  return y;
}

Rows rms_norm(const Rows& x, int width, const double* gain, const double* bias, double eps) {
  const auto d = static_cast<std::size_t>(width);
  Rows y(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double square = 0;
    for (std::size_t j = 0; j < d; ++j) square += x[row + j] * x[row + j] / width;
    for (std::size_t j = 0; j < d; ++j)
      y[row + j] = x[row + j] / std::sqrt(square + eps) * gain[j] + or_zero(bias, j);
  }
  return y;
}

Rows normalised(const Rows& x, int width, const NormSettings& norm, const double* gain, const double* bias) {
  return norm.map == NormMap::rms ? rms_norm(x, width, gain, bias, norm.eps)
                                  : layer_norm(x, width, gain, bias, norm.eps);
}

Rows project_to_sphere(const Rows& x, int width) {
  const auto d = static_cast<std::size_t>(width);
  Rows y(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double square = 0;
    for (std::size_t j = 0; j < d; ++j) square += x[row + j] * x[row + j];
    for (std::size_t j = 0; j < d; ++j) y[row + j] = x[row + j] / std::sqrt(square);
  }
  return y;
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

Rows feed_forward(const Rows& u, int width, const ReactionSettings& settings,
                  const ReactionWeights<const double>& weights) {
  const auto d = static_cast<std::size_t>(width);
  const auto f = static_cast<std::size_t>(settings.hidden);
  const Rows input = settings.layer_norm ? normalised(u, width, weights.norm, weights.gain, weights.bias) : u;
  Rows result(u.size());
  for (std::size_t row = 0; row < u.size(); row += d) {
    Rows hidden(f);
    for (std::size_t i = 0; i < f; ++i) {
      double inner = or_zero(weights.b_1, i), gate = or_zero(weights.b_g, i);
      for (std::size_t j = 0; j < d; ++j) inner += weights.w_1[i * d + j] * input[row + j];
      for (std::size_t j = 0; j < d && settings.gated; ++j) gate += weights.w_g[i * d + j] * input[row + j];
      hidden[i] =
          settings.gated ? activate(settings.activation, gate) * inner : activate(settings.activation, inner);
    }
    for (std::size_t j = 0; j < d; ++j) {
      double y = or_zero(weights.b_2, j);
      for (std::size_t i = 0; i < f; ++i) y += weights.w_2[j * f + i] * hidden[i];
      result[row + j] = *weights.rho * y;
    }
  }
  return result;
}

}  // namespace fluxformer::reference
