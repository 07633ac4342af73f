#include "analysis/interventions/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "analysis/identifiability/attribution.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::interventions {
namespace {

void require_equal_lengths(std::size_t one, std::size_t other) {
  if (one != other) throw std::invalid_argument("effects of different numbers of places are compared");
}

/// Pearson's correlation; NaN where one list is constant.
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size()),
               mean_y = std::accumulate(y.begin(), y.end(), 0.0) / static_cast<double>(y.size());
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    xy += (x[k] - mean_x) * (y[k] - mean_y);
    xx += (x[k] - mean_x) * (x[k] - mean_x);
    yy += (y[k] - mean_y) * (y[k] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : missing_value;
}

/// The places of the `count` largest magnitudes; of equals those of the lower index.
std::vector<std::size_t> places_of_largest(std::span<const double> numbers, std::size_t count) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t k) { return std::isnan(numbers[k]); });
  std::ranges::stable_sort(order, [&](std::size_t one, std::size_t other) {
    return std::abs(numbers[one]) > std::abs(numbers[other]);
  });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

}  // namespace

Agreement agreement(std::span<const double> account, std::span<const double> exact) {
  require_equal_lengths(account.size(), exact.size());
  std::vector<double> one, other;
  for (std::size_t k = 0; k < exact.size(); ++k)
    if (!std::isnan(account[k]) && !std::isnan(exact[k]))
      one.push_back(account[k]), other.push_back(exact[k]);
  Agreement found{missing_value, missing_value, missing_value, missing_value};
  double off = 0, size = 0;
  for (std::size_t k = 0; k < one.size(); ++k) {
    off += (one[k] - other[k]) * (one[k] - other[k]);
    size += other[k] * other[k];
  }
  if (size > 0) found.relative_error = std::sqrt(off / size);
  const auto x = identifiability::with_ties(one), y = identifiability::with_ties(other);
  const auto constant = [](const std::vector<double>& numbers) {
    return std::ranges::all_of(numbers, [&](double number) { return number == numbers.front(); });
  };
  if (x.size() < 2 || constant(x) || constant(y)) return found;
  found.spearman = identifiability::spearman(x, y);
  found.pearson = correlation(x, y);
  constexpr std::size_t most = 10;
  if (x.size() <= most) return found;
  const auto of_account = places_of_largest(x, most), of_exact = places_of_largest(y, most);
  std::vector<std::size_t> both;
  std::ranges::set_intersection(of_account, of_exact, std::back_inserter(both));
  found.top_share = static_cast<double>(both.size()) / most;
  return found;
}

Agreement mean_agreement(const std::vector<Agreement>& all) {
  const auto mean_of = [&](double Agreement::*number) {
    double sum = 0, count = 0;
    for (const auto& one : all)
      if (!std::isnan(one.*number)) sum += one.*number, count += 1;
    return count > 0 ? sum / count : missing_value;
  };
  return {mean_of(&Agreement::spearman), mean_of(&Agreement::pearson), mean_of(&Agreement::relative_error),
          mean_of(&Agreement::top_share)};
}

std::vector<double> untrusted(std::span<const double> first, std::span<const double> second, double limit) {
  require_equal_lengths(first.size(), second.size());
  std::vector<double> marks(first.size());
  for (std::size_t k = 0; k < first.size(); ++k)
    marks[k] = std::abs(second[k] - first[k]) > limit * std::abs(first[k]) ? 1 : 0;
  return marks;
}

std::vector<std::size_t> largest(std::span<const double> numbers, double share) {
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("a share of the places lies between 0 and 1");
  const auto there = std::ranges::count_if(numbers, [](double number) { return !std::isnan(number); });
  // Round-off of the product adds no place.
  return places_of_largest(numbers,
                           static_cast<std::size_t>(std::ceil(share * static_cast<double>(there) - 1e-9)));
}

}  // namespace fluxformer::interventions
