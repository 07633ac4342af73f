#include "base/statistics.hpp"

#include <algorithm>
#include <numeric>

namespace fluxformer {

Spread spread_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  const std::size_t n = numbers.size();
  return {numbers.front(), (numbers[(n - 1) / 2] + numbers[n / 2]) / 2, numbers.back()};
}

double median(const std::vector<double>& numbers) {
  return spread_of(numbers).median;
}

double mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

}  // namespace fluxformer
