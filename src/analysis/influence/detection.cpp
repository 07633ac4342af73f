#include "analysis/influence/detection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace fluxformer::influence {
namespace {

double or_least(double score) {
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

}  // namespace

double precision_at(std::span<const double> scores, std::span<const double> wrong, std::size_t k) {
  if (scores.size() != wrong.size() || k > scores.size())
    throw std::invalid_argument("precision of scores of other samples, or among more than there are");
  if (k == 0) return std::numeric_limits<double>::quiet_NaN();
  const double limit = or_least(scores[largest_scores(scores, k).back()]);
  double above = 0, equal = 0, wrong_above = 0, wrong_equal = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double score = or_least(scores[i]);
    if (score > limit) above += 1, wrong_above += wrong[i];
    if (score == limit) equal += 1, wrong_equal += wrong[i];
  }
  const auto places = static_cast<double>(k);
  return (wrong_above + (places - above) * wrong_equal / equal) / places;
}

std::vector<std::size_t> largest_scores(std::span<const double> scores, std::size_t count) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return or_least(scores[i]); });
  order.resize(std::min(count, order.size()));
  return order;
}

}  // namespace fluxformer::influence
