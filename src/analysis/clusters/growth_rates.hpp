#pragma once

// Growth of small displacements of tokens on the unit sphere that attention moves, in closed form.
//
//   dx_i/dt = v P_x sum_j k(x_i, x_j) x_j / Z_i,    k(x, y) = e^{beta (<x, y> - 1)},   P_x = I - x x^T
//
// with Z_i = sum_j k(x_i, x_j) (soft-max attention) or n (unnormalised). All rates are per unit of time. Not collective.

namespace fluxformer::clusters {

/// The divisor of the sums of attention: Z_i = sum_j k(x_i, x_j), or n.
enum class Weights { softmax, unnormalised };

/// Tokens that are spread evenly over the sphere S^{d-1}.
struct UniformTokens {
  int dimension = 2;  ///< d, from 2
  double beta = 1;    ///< from 0
  double value = 1;   ///< v
  double noise = 0;   ///< kappa_s, of dx = ... + sqrt(2 kappa_s) P_x dW
  Weights weights = Weights::softmax;
};

/// Eigenvalue of the kernel on harmonics of a degree (Funk-Hecke): lambda_l = e^{-beta} Gamma(d/2) (2/beta)^{d/2-1} I_{l+d/2-1}(beta).
/// To some beta roundings, for every dimension.
double kernel_eigenvalue(int dimension, double beta, int degree);
/// lambda_l / beta of degrees from 1 on, also for beta = 0.
double kernel_eigenvalue_over_beta(int dimension, double beta, int degree);

/// The rate of harmonics of a degree from 1 on (Bruno, Pasqualotto, Agazzi, arXiv 2410.23228):
///   sigma_l = l (l+d-2) (v lambda_l / (beta Z) - kappa_s),    Z = lambda_0 for soft-max, 1 for unnormalised weights
double growth_rate(const UniformTokens& tokens, int degree);
/// The noise at which degree 1 ceases to grow: v lambda_1 / (beta Z). Higher degrees cease at less noise.
double critical_noise(const UniformTokens& tokens);
/// The degree that grows fastest; 0: none grows.
int fastest_degree(const UniformTokens& tokens);
/// The beta at which lambda_2 / lambda_1 = I_{d/2+1} / I_{d/2} is `ratio`, which rises with beta from 0 to 1. 1 / (2d) < ratio < 3/4.
double beta_of_ratio(int dimension, double ratio);
/// The beta at which degree 1 gives way to degree 2: lambda_2 / lambda_1 = (d-1) / (2d), without noise.
double beta_of_two(int dimension);
/// The factor of harmonics of a degree in a layer x -> (x + h y) / |x + h y|, y = v sum_j k_ij x_j / Z_i: 1 + h sigma_l / (1 + h v q_1) with
/// q_1 = lambda_1 / Z; without the residual, x -> y / |y|, 1 + sigma_l / (v q_1). Without noise.
double growth_in_layer(const UniformTokens& tokens, int degree, double step);
double growth_without_residual(const UniformTokens& tokens, int degree);

/// Equal tokens, or clusters of equal mass, at equal distances on the circle.
struct Ring {
  int tokens = 2;
  double beta = 1;
  Weights weights = Weights::softmax;
};
/// The rate of displacements cos(m phi_j) along the circle, v = 1:
///   sigma_m = sum_j k(phi_j) (cos phi_j - beta sin^2 phi_j) (cos(m phi_j) - 1) / Z,    phi_j = 2 pi j / n
double growth_rate(const Ring& ring, int mode);
/// The time in which the displacement of a ring that grows fastest does so e-fold; infinite if none grows.
double lifetime(const Ring& ring);

}  // namespace fluxformer::clusters
