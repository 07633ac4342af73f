#pragma once

// Estimators of mutual information between the hidden state T of a sample (pooled, or of one token), the
// sample X and its label Y: by binning, kernel density and Gaussians (by nearest neighbours: ksg.hpp). All
// numbers are in nats; nothing here communicates.
//
// A deterministic layer that does not merge samples has I(X;T) = ln N; a decrease with depth shows the
// resolution of the estimator. Only I(X; T + sigma Z) with a given sigma is a property of the layer.

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::information {

/// Borrowed array of `count` points of `components` numbers, row by row.
struct Points {
  const double* data = nullptr;
  Index count = 0, components = 0;
  const double* row(Index i) const { return data + i * components; }
  const double* end() const { return row(count); }
};

/// Estimate of a mutual information. N samples cannot show more than ln N.
struct Information {
  double value = 0;                        ///< nats
  std::optional<double> lower{}, upper{};  ///< bounds, nats, if the estimator gives any
};

/// Point of the information plane.
struct InformationPlane {
  Information input;  ///< I(X;T)
  Information label;  ///< I(T;Y)
};

/// Samples sorted by label: group g holds order[first[g]] .. order[first[g + 1] - 1].
struct LabelGroups {
  /// Labels may be any integers; groups are in their order, samples of a group in the order they had.
  explicit LabelGroups(std::span<const int> labels);
  Index groups() const { return std::ssize(first) - 1; }
  Index size(Index g) const { return first[g + 1] - first[g]; }
  /// p_y: number of samples of group g over number of samples.
  double share(Index g) const { return size(g) / static_cast<double>(order.size()); }
  /// Rows of `points`, sorted by label.
  std::vector<double> rows(const Points& points) const;
  /// H(Y) = -sum_y p_y ln p_y, nats, which I(T;Y) cannot exceed.
  double entropy() const;

  std::vector<Index> order, first;
};

/// Midpoint of the bounds of a mutual information that cannot exceed `most`; all three are clamped to [0,
/// most].
Information between(double lower, double upper, double most);

/// Throws BadInput, naming the estimator, for fewer than two points, no component or a number that is not
/// finite.
void require_points(std::string_view estimator, const Points& points);
/// Throws BadInput, naming the estimator, unless there is one label for each point.
void require_labels(std::string_view estimator, const Points& points, std::span<const int> labels);
/// Throws BadInput, naming the estimator, for a noise that is not positive.
void require_noise(std::string_view estimator, double sigma);

// Mutual information of binned states, in nats. Each component of T is assigned to one of B intervals of
// equal width; T_b is the resulting cell of the grid. X determines T and is different for every sample, hence
//
//   I(X; T_b) = H(T_b) = ln N - 1/N sum over cells n_c ln n_c,     I(T_b; Y) = H(T_b) + H(Y) - H(T_b, Y).
//
// These are plug-in estimates: once most cells hold one sample, I(X; T_b) is ln N and I(T_b; Y) is H(Y),
// whatever T contains. Source: Shwartz-Ziv, Tishby, arXiv 1703.00810; what it measures: Saxe et al., ICLR
// 2018.

/// Grid of intervals.
struct Bins {
  Index count = 30;  ///< number of intervals of each component, 1 to 2^30
  /// Range of every component, say [-1, 1] for tanh; numbers outside count in the first or last bin. Without
  /// a range: from the smallest to the largest number of all components (the same width for all).
  std::optional<std::pair<double, double>> range;
};

/// Plug-in estimates I(X; T_b) and I(T_b; Y). Cost: N ln N comparisons of m numbers. Independent of the order
/// of the samples, bit for bit. Not collective. Throws BadInput for a count out of range, an empty range, and
/// as require_points and require_labels do.
InformationPlane binned_information(const Points& t, std::span<const int> labels, const Bins& bins);

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

/// Bounds by kernel density with the noise `sigma` in units of T (bandwidth of the kernel). Cost: N^2 m
/// multiplications and N^2 exponentials, in blocks; 2 MB of work space besides a copy of T. The value is the
/// midpoint of the bounds before they are clamped. Not collective. Throws BadInput as require_points,
/// require_labels and require_noise do.
InformationPlane kde_information(const Points& t, std::span<const int> labels, double sigma);

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

/// 1/2 ln det(1 + Sigma / sigma^2) of a covariance, m x m; eigenvalues below zero (round-off) count as zero.
/// Not collective. Throws BadInput for m = 0, for numbers that are not finite, and as require_noise does.
double gaussian_channel(const double* covariance, Index m, double sigma);

/// Gaussian estimates with the noise `sigma` in units of T. Cost: N m^2 operations, and m^3 for every pair of
/// labels. The value of I(T;Y) is the midpoint of its bounds. Not collective. Throws BadInput as
/// require_points, require_labels and require_noise do.
InformationPlane gaussian_information(const Points& t, std::span<const int> labels, double sigma);

}  // namespace fluxformer::information
