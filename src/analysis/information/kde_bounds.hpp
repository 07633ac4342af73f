#pragma once

// Bounds of Kolchinsky and Tracey on the information in noisy states T + sigma Z, Z standard normal, in nats.
// With the N samples as the whole population, T + sigma Z is a mixture of N Gaussians of equal weight, and
//
//   I(X; T + sigma Z) >= -1/N sum_i ln 1/N sum_j exp(-|t_i - t_j|^2 / (8 sigma^2))      (Bhattacharyya)
//                     <= -1/N sum_i ln 1/N sum_j exp(-|t_i - t_j|^2 / (2 sigma^2))      (Kullback-Leibler)
//   I(T + sigma Z; Y)  = I(X; T + sigma Z) - sum_y p_y I(X; T + sigma Z | Y = y),
//
// where the lower bound takes the lower bound of the first term and the upper bounds of the others, and vice
// versa. They hold for the given samples; for a continuous population only up to ln N and the sampling error.
// Source: Kolchinsky, Tracey, Entropy 19 (2017) 361, arXiv 1706.02419.

#include <span>

#include "analysis/information/information.hpp"

namespace fluxformer::information {

/// sigma: noise in units of T (bandwidth of the kernel). Cost: N^2 m multiplications and N^2 exponentials, in
/// blocks; 2 MB of work space besides a copy of T. The value is the midpoint of the bounds before they are
/// clamped. Not collective. Throws BadInput as require_points, require_labels and
/// require_noise do.
InformationPlane kde_information(const Points& t, std::span<const int> labels, double sigma);

}  // namespace fluxformer::information
