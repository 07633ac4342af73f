#include "analysis/clusters/growth_rates.hpp"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace fluxformer::clusters {
namespace {

/// e^{-x} I_nu(x) (2/x)^{nu - power} Gamma(first), by the series of I_nu, whose terms are all positive:
///   sum_k e^{-x} Gamma(first) (x/2)^{2k + power} / (k! Gamma(k + nu + 1))
double scaled_bessel(double nu, double x, double first, int power) {
  const double square = x * x / 4;
  const auto ratio = [&](double k) { return square / ((k + 1) * (k + nu + 1)); };  // of term k + 1 to term k
  // Terms rise up to the one whose ratio is 1: the series is summed from there.
  const double top = std::max(0.0, std::floor((std::sqrt(nu * nu + 4 * square) - nu) / 2));
  const double exponent = 2 * top + power, of_x = exponent > 0 ? exponent * std::log(x / 2) : 0;
  double term = std::exp(of_x - x + std::lgamma(first) - std::lgamma(top + 1) - std::lgamma(top + nu + 1));
  double sum = term;
  const double small = std::numeric_limits<double>::epsilon() / 16;
  double down = term;
  for (double k = top - 1; k >= 0 && down > small * sum; --k) sum += down /= ratio(k);
  for (double k = top; term > small * sum; ++k) sum += term *= ratio(k);
  return sum;
}

/// Z of the uniform tokens: the mean of k over the sphere, or 1.
double weight(const UniformTokens& tokens) {
  return tokens.weights == Weights::softmax ? kernel_eigenvalue(tokens.dimension, tokens.beta, 0) : 1;
}

/// <x, y> of the uniform tokens: v q_1.
double radial(const UniformTokens& tokens) {
  return tokens.value * kernel_eigenvalue(tokens.dimension, tokens.beta, 1) / weight(tokens);
}

}  // namespace

double kernel_eigenvalue(int dimension, double beta, int degree) {
  const double half = dimension / 2.0;
  return scaled_bessel(degree + half - 1, beta, half, degree);
}

double kernel_eigenvalue_over_beta(int dimension, double beta, int degree) {
  const double half = dimension / 2.0;
  return scaled_bessel(degree + half - 1, beta, half, degree - 1) / 2;
}

double growth_rate(const UniformTokens& tokens, int degree) {
  const double laplacian = 1.0 * degree * (degree + tokens.dimension - 2);
  return laplacian *
         (tokens.value * kernel_eigenvalue_over_beta(tokens.dimension, tokens.beta, degree) / weight(tokens) -
          tokens.noise);
}

double critical_noise(const UniformTokens& tokens) {
  return tokens.value * kernel_eigenvalue_over_beta(tokens.dimension, tokens.beta, 1) / weight(tokens);
}

int fastest_degree(const UniformTokens& tokens) {
  int best = 0;
  double rate = 0;
  // l (l+d-2) lambda_l is largest near l^2 = 2 beta or below.
  for (int degree = 1; degree <= 8 + 3 * std::sqrt(tokens.beta); ++degree)
    if (const double here = growth_rate(tokens, degree); here > rate) {
      best = degree;
      rate = here;
    }
  return best;
}

double beta_of_ratio(int dimension, double ratio) {
  const auto excess = [&](double beta) {
    return kernel_eigenvalue(dimension, beta, 2) / kernel_eigenvalue(dimension, beta, 1) - ratio;
  };
  double below = 0.25, above = 4.0 * dimension;  // near 2d/3 for large d
  std::uintmax_t most = 200;
  const auto bracket = boost::math::tools::toms748_solve(excess, below, above,
                                                         boost::math::tools::eps_tolerance<double>(50), most);
  return (bracket.first + bracket.second) / 2;
}

double beta_of_two(int dimension) {
  return beta_of_ratio(dimension, (dimension - 1) / (2.0 * dimension));
}

double growth_in_layer(const UniformTokens& tokens, int degree, double step) {
  return 1 + step * growth_rate(tokens, degree) / (1 + step * radial(tokens));
}

double growth_without_residual(const UniformTokens& tokens, int degree) {
  return 1 + growth_rate(tokens, degree) / radial(tokens);
}

double growth_rate(const Ring& ring, int mode) {
  double sum = 0, all = 0;
  for (int j = 0; j < ring.tokens; ++j) {
    const double phi = 2 * std::numbers::pi * j / ring.tokens, sine = std::sin(phi), half = std::sin(phi / 2);
    const double k = std::exp(-2 * ring.beta * half * half);
    sum += k * (std::cos(phi) - ring.beta * sine * sine) * (std::cos(mode * phi) - 1);
    all += k;
  }
  return sum / (ring.weights == Weights::softmax ? all : ring.tokens);
}

double lifetime(const Ring& ring) {
  double fastest = 0;
  for (int mode = 1; mode <= ring.tokens / 2; ++mode) fastest = std::max(fastest, growth_rate(ring, mode));
  return 1 / fastest;
}

}  // namespace fluxformer::clusters
