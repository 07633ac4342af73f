#pragma once

// Summaries of a few numbers.

#include <limits>
#include <span>
#include <vector>

namespace fluxformer {

/// What a measure gives where it is not defined or was not taken. Files mark it as missing.
inline constexpr double missing_value = std::numeric_limits<double>::quiet_NaN();

/// Of repeated measurements, say.
struct Spread {
  double least, median, greatest;
};

/// Of at least one number. The median of an even count is the mean of the middle two.
Spread spread_of(std::vector<double> numbers);
double median(const std::vector<double>& numbers);
double mean(const std::vector<double>& numbers);

/// Mean of independent measurements with its standard error, and the measurements, for callers that pool them.
struct Estimate {
  double mean = 0, standard_error = 0;
  std::vector<double> samples;
};
/// Of at least two numbers: standard_error = sqrt(sum (x - mean)^2 / (N (N - 1))).
Estimate estimate_of(std::vector<double> samples);

/// sum_l weights_l N(x; centres_l, width^2) at each x of `grid`.
std::vector<double> gaussian_mixture(std::span<const double> centres, std::span<const double> weights,
                                     double width, std::span<const double> grid);

}  // namespace fluxformer
