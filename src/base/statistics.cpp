#include "base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace fluxformer {

Spread spread_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t n = numbers.size();
  // For odd n both places are the middle one.
  return {numbers.front(), (numbers[(n - 1) / 2] + numbers[n / 2]) / 2, numbers.back()};
}

double median(const std::vector<double>& numbers) {
  return spread_of(numbers).median;
}

double mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / numbers.size();
}

Estimate estimate_of(std::vector<double> samples) {
  const double count = samples.size();
  const double centre = mean(samples);
  // standard error = sqrt(sum (x - mean)^2 / (N (N - 1)))
  double squares = 0;
  for (const double x : samples) squares += (x - centre) * (x - centre);
  return {centre, std::sqrt(squares / (count * (count - 1))), std::move(samples)};
}

Estimate blocked_estimate(std::span<const double> series, std::size_t blocks) {
  std::vector<double> means;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t first = b * series.size() / blocks, next = (b + 1) * series.size() / blocks;
    means.push_back(mean({series.begin() + first, series.begin() + next}));
  }
  Estimate found = estimate_of(std::move(means));
  found.mean = mean({series.begin(), series.end()});
  return found;
}

std::vector<double> gaussian_mixture(std::span<const double> centres, std::span<const double> weights,
                                     double width, std::span<const double> grid) {
  // density_i = sum_l w_l exp(-z^2 / 2) / (width sqrt(2 pi)),  z = (x_i - c_l) / width
  const double height = 1 / (width * std::sqrt(2 * std::numbers::pi));
  std::vector<double> density(grid.size(), 0.0);
  for (std::size_t i = 0; i < grid.size(); ++i)
    for (std::size_t l = 0; l < centres.size(); ++l) {
      const double z = (grid[i] - centres[l]) / width;
      density[i] += weights[l] * height * std::exp(-z * z / 2);
    }
  return density;
}

}  // namespace fluxformer
