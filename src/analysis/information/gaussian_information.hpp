#pragma once

// Mutual information of noisy states T + sigma Z as if they were Gaussian, in nats:
//
//   I(X; T + sigma Z) = 1/2 ln det(1 + Sigma / sigma^2)            Sigma the covariance of T
//
// exact for a Gaussian T, an upper bound for any other T of that covariance; it may exceed ln N.
// I(T + sigma Z; Y) is that of Gaussian classes N(mu_y, Sigma_y + sigma^2) with the shares p_y of the
// samples. It has no closed form, but bounds (D: Bhattacharyya distance for the lower, Kullback-Leibler
// divergence of y from y' for the upper one):
//
//   -sum_y p_y ln sum_y' p_y' exp(-D(y, y'))
//
// Two more upper bounds are H(Y), and the entropy of one Gaussian with the covariance of all classes together
// minus sum_y p_y 1/2 ln det(Sigma_y + sigma^2).
//
// Covariances (divisor N) are shrunk towards the multiple of the identity with the same trace, by an amount
// between 0 (none) and 1 (completely) that follows from their sampling error. Sources: Cover, Thomas,
// Elements of Information Theory, section 9.4; Kolchinsky, Tracey, arXiv 1706.02419; Ledoit, Wolf, J.
// Multivariate Analysis 88 (2004) 365, section 3.

#include <cstddef>
#include <span>

#include "analysis/information/information.hpp"

namespace fluxformer::information {

/// 1/2 ln det(1 + Sigma / sigma^2) of a covariance, m x m; eigenvalues below zero (round-off) count as zero.
/// Not collective. Throws BadInput for m = 0, for numbers that are not finite, and as require_noise does.
double gaussian_channel(const double* covariance, std::size_t m, double sigma);

/// sigma: noise in units of T. Cost: N m^2 operations, and m^3 for every pair of labels. The value of I(T;Y)
/// is the midpoint of its bounds. Not collective. Throws BadInput as require_points, require_labels and
/// require_noise do.
InformationPlane gaussian_information(const Points& t, std::span<const int> labels, double sigma);

}  // namespace fluxformer::information
