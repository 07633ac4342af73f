#pragma once

// Summaries of a few numbers.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace fluxformer {

/// Value of a measure where it is not defined or was not taken. Files mark it as missing.
inline constexpr double missing_value = std::numeric_limits<double>::quiet_NaN();

/// Smallest, median and largest of some numbers.
struct Spread {
  double least, median, greatest;
};

/// Spread of at least one number.
Spread spread_of(std::vector<double> numbers);
/// Median of at least one number; of an even count the mean of the middle two.
double median(const std::vector<double>& numbers);
/// Mean of at least one number.
double mean(const std::vector<double>& numbers);

/// Mean of independent measurements with its standard error, and the measurements, for callers that pool
/// them.
struct Estimate {
  double mean = 0, standard_error = 0;
  std::vector<double> samples;
};
/// Estimate from at least two measurements: standard_error = sqrt(sum (x - mean)^2 / (N (N - 1))).
Estimate estimate_of(std::vector<double> samples);

/// Mean of a series of measurements that depend on each other, with the standard error of the means of `blocks` parts of it, which are the samples.
/// It holds where a part is much longer than the memory of the series. At least as many measurements as blocks, at least two blocks.
Estimate blocked_estimate(std::span<const double> series, std::size_t blocks);

/// Density sum_l weights_l N(x; centres_l, width^2) at each x of `grid`.
std::vector<double> gaussian_mixture(std::span<const double> centres, std::span<const double> weights,
                                     double width, std::span<const double> grid);

}  // namespace fluxformer
