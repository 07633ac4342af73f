#include "analysis/information/information.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.hpp"

namespace fluxformer::information {
namespace {

[[noreturn]] void refuse(std::string_view estimator, const std::string& why) {
  throw BadInput("mutual information (" + std::string(estimator) + "): " + why);
}

}  // namespace

LabelGroups::LabelGroups(std::span<const int> labels) : order(labels.size()) {
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return labels[a] < labels[b]; });
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i == 0 || labels[order[i]] != labels[order[i - 1]]) first.push_back(i);
  first.push_back(order.size());
}

std::vector<double> LabelGroups::rows(const Points& points) const {
  std::vector<double> sorted;
  sorted.reserve(points.count * points.components);
  for (const std::size_t i : order)
    sorted.insert(sorted.end(), points.row(i), points.row(i) + points.components);
  return sorted;
}

double LabelGroups::entropy() const {
  double sum = 0;
  for (std::size_t g = 0; g < groups(); ++g) sum -= share(g) * std::log(share(g));
  return sum;
}

Information between(double lower, double upper, double most) {
  // The midpoint of the bounds before they are clamped: if both are off by the same amount it is exact.
  return {std::clamp(0.5 * (lower + upper), 0.0, most), std::clamp(lower, 0.0, most),
          std::clamp(upper, 0.0, most)};
}

void require_points(std::string_view estimator, const Points& points) {
  if (points.count < 2) refuse(estimator, std::to_string(points.count) + " samples; it needs at least 2");
  if (points.components < 1) refuse(estimator, "points of 0 components; it needs at least 1");
  const std::size_t size = points.count * points.components;
  for (std::size_t i = 0; i < size; ++i)
    if (!std::isfinite(points.data[i]))
      refuse(estimator, "component " + std::to_string(i % points.components) + " of sample " +
                            std::to_string(i / points.components) + " is not a finite number");
}

void require_labels(std::string_view estimator, const Points& points, std::span<const int> labels) {
  if (labels.size() != points.count)
    refuse(estimator, std::to_string(labels.size()) + " labels for " + std::to_string(points.count) +
                          " samples; it needs one for each");
}

void require_noise(std::string_view estimator, double sigma) {
  if (!(sigma > 0) || !std::isfinite(sigma))
    refuse(estimator, "sigma = " + std::to_string(sigma) + ": must be a finite number above 0");
}

}  // namespace fluxformer::information
