#pragma once

// Tokens on the unit sphere that all have the same cosine gamma with each other: attention keeps them so, and n tokens are one number.
//
//   d gamma/dt = 2 w (1 - gamma) (1 + (n-1) gamma) / (1 + (n-1) w),    w = e^{-beta (1 - gamma)}
//
// (Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv 2312.10794). With beta = c log n the attention of a token is its own in long contexts,
// or that of all, as c is above or below 1/(1 - gamma) (Chen, Lin, Polyanskiy, Rigollet, arXiv 2510.05554). Not collective.

#include <optional>

namespace fluxformer::clusters {

/// The number of tokens, from 2 and as a real number (1e12, say), and the inverse temperature of their attention, v = 1.
struct Context {
  double tokens = 2;
  double beta = 1;
};

/// The c of beta = c log n at which tokens of a cosine below 1 cease to hear each other in long contexts: 1 / (1 - cosine).
double critical_scaling(double cosine);
/// The time from one cosine to a larger one below 1, to 1e-12 of it, by quadrature over log((gamma + 1/(n-1)) / (1 - gamma)): gamma itself
/// has too few digits near its ends. Infinite from -1/(n-1), which is at rest, and beyond beta (1 - from) = 700.
double time_between(const Context& context, double from, double to);
/// The cosine behind a layer x -> (x + h y) / |x + h y|, y = sum_j k_ij x_j / z_i, of tokens with this cosine; without step a layer without
/// residual, x -> y / |y|.
double cosine_behind_layer(const Context& context, double cosine, std::optional<double> step);

/// The share of random keys on the sphere S^{d-1} that act on a query, lambda_0(beta)^2 / lambda_0(2 beta): so many of n keys weigh as much
/// as equal ones. Critical where n times it is of order one, beta ~ n^{2/(d-1)} (Bruno, Chen et al., arXiv 2605.08505).
double acting_share(int dimension, double beta);

}  // namespace fluxformer::clusters
