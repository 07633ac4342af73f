#include "analysis/identifiability/rank_correlation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace fluxformer::identifiability {

std::vector<double> mid_ranks(std::span<const double> values) {
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
    throw BadInput("what is not a number has no rank");
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, past; first < order.size(); first = past) {
    for (past = first; past < order.size() && values[order[past]] == values[order[first]];) ++past;
    for (std::size_t at = first; at < past; ++at)
      ranks[order[at]] = 0.5 * static_cast<double>(first + 1 + past);
  }
  return ranks;
}

double spearman(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) throw BadInput("a rank correlation needs two lists of one size");
  const auto a = mid_ranks(x), b = mid_ranks(y);
  // Ranks are multiples of 1/2: their sums are exact, and a constant side has a variance of exactly 0.
  const double mean = 0.5 * static_cast<double>(x.size() + 1);
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
    ab += (a[i] - mean) * (b[i] - mean);
  }
  return aa == 0 || bb == 0 ? std::numeric_limits<double>::quiet_NaN() : ab / std::sqrt(aa * bb);
}

}  // namespace fluxformer::identifiability
