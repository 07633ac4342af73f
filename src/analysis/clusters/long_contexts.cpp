#include "analysis/clusters/long_contexts.hpp"

#include <boost/math/quadrature/gauss_kronrod.hpp>
#include <cmath>
#include <limits>

#include "analysis/clusters/growth_rates.hpp"

namespace fluxformer::clusters {
namespace {

/// w = e^{-beta (1 - gamma)}: the kernel of two tokens over that of a token with itself.
double kernel(const Context& context, double cosine) {
  return std::exp(-context.beta * (1 - cosine));
}

}  // namespace

double critical_scaling(double cosine) {
  return 1 / (1 - cosine);
}

double time_between(const Context& context, double from, double to) {
  const double others = context.tokens - 1, length = 1 + 1 / others;
  constexpr double infinite = std::numeric_limits<double>::infinity(), largest_exponent = 700;
  if (from + 1 / others <= 0 || context.beta * (1 - from) > largest_exponent) return infinite;
  // With s = log((gamma + 1/(n-1)) / (1 - gamma)), of which 1 - gamma = (1 + 1/(n-1)) / (1 + e^s):
  //   dt/ds = (1 + e^{beta (1 - gamma)} / (n-1)) / (2 (1 + 1/(n-1)))
  const auto place = [&](double gamma) { return std::log((gamma + 1 / others) / (1 - gamma)); };
  const auto slowness = [&](double s) {
    return (1 + std::exp(context.beta * length / (1 + std::exp(s))) / others) / (2 * length);
  };
  using Quadrature = boost::math::quadrature::gauss_kronrod<double, 31>;
  constexpr unsigned halvings = 12;
  return Quadrature::integrate(slowness, place(from), place(to), halvings, 1e-13);
}

double cosine_behind_layer(const Context& context, double cosine, std::optional<double> step) {
  const double n = context.tokens, w = kernel(context, cosine);
  // y_i = a x_i + b sum_{j != i} x_j = p x_i + b sum_j x_j, and the sum has the product S with each token.
  const double a = 1 / (1 + (n - 1) * w), b = w * a, scale = step.value_or(1);
  const double p = (step ? 1 : 0) + scale * (a - b), q = scale * b, sum = 1 + (n - 1) * cosine;
  const double rest = 2 * p * q * sum + q * q * n * sum;
  return (p * p * cosine + rest) / (p * p + rest);
}

double acting_share(int dimension, double beta) {
  const double once = kernel_eigenvalue(dimension, beta, 0);
  return once * (once / kernel_eigenvalue(dimension, 2 * beta, 0));
}

}  // namespace fluxformer::clusters
