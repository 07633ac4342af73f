#pragma once

// Summaries of a few numbers.

#include <vector>

namespace fluxformer {

/// Of repeated measurements, say.
struct Spread {
  double least, median, greatest;
};

/// Of at least one number. The median of an even count is the mean of the middle two.
Spread spread_of(std::vector<double> numbers);
double median(const std::vector<double>& numbers);
double mean(const std::vector<double>& numbers);

}  // namespace fluxformer
