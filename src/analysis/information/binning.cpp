#include "analysis/information/binning.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace fluxformer::information {
namespace {

struct Grid {
  double low, high;
  std::size_t count;

  std::int32_t bin(double x) const {
    if (!(high > low)) return 0;  // a constant state
    const double at = std::floor((x - low) / (high - low) * static_cast<double>(count));
    return static_cast<std::int32_t>(std::clamp(at, 0.0, static_cast<double>(count - 1)));
  }
};

Grid grid_of(const Points& t, const Bins& bins) {
  constexpr std::size_t most = std::size_t{1} << 30;
  if (bins.count < 1 || bins.count > most)
    throw BadInput("mutual information (binning): " + std::to_string(bins.count) +
                   " bins; allowed are 1 to 1073741824");
  if (bins.range) {
    const auto [low, high] = *bins.range;
    if (!std::isfinite(low) || !std::isfinite(high) || !(high > low))
      throw BadInput("mutual information (binning): range " + std::to_string(low) + " to " +
                     std::to_string(high) + ": the second must be above the first");
    return {low, high, bins.count};
  }
  const auto [low, high] = std::minmax_element(t.data, t.data + t.count * t.components);
  return {*low, *high, bins.count};
}

/// Entropy of a partition of N samples: ln N - 1/N sum n ln n.
class PartitionEntropy {
 public:
  void add(std::size_t n) {
    count_ += static_cast<double>(n);
    sum_ += static_cast<double>(n) * std::log(static_cast<double>(n));
  }
  double value() const { return std::log(count_) - sum_ / count_; }

 private:
  double count_ = 0, sum_ = 0;
};

}  // namespace

InformationPlane binned_information(const Points& t, std::span<const int> labels, const Bins& bins) {
  require_points("binning", t);
  require_labels("binning", t, labels);
  const Grid grid = grid_of(t, bins);
  const std::size_t size = t.count * t.components;
  std::vector<std::int32_t> cell(size);
  for (std::size_t i = 0; i < size; ++i) cell[i] = grid.bin(t.data[i]);

  // Sorted by cell, then by label: runs are the cells, runs within them the pairs of cell and label.
  const auto same_cell = [&](std::size_t a, std::size_t b) {
    const auto* const p = cell.data() + a * t.components;
    return std::equal(p, p + t.components, cell.data() + b * t.components);
  };
  std::vector<std::size_t> order(t.count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto *const p = cell.data() + a * t.components, *const q = cell.data() + b * t.components;
    const auto [at_p, at_q] = std::mismatch(p, p + t.components, q);
    return at_p == p + t.components ? labels[a] < labels[b] : *at_p < *at_q;
  });
  PartitionEntropy cells, pairs;
  std::size_t in_cell = 0, in_pair = 0;
  for (std::size_t i = 0; i < t.count; ++i) {
    ++in_cell, ++in_pair;
    const bool last = i + 1 == t.count, ends = last || !same_cell(order[i], order[i + 1]);
    if (ends || labels[order[i]] != labels[order[i + 1]]) pairs.add(std::exchange(in_pair, 0));
    if (ends) cells.add(std::exchange(in_cell, 0));
  }

  const LabelGroups groups(labels);
  PartitionEntropy label;
  for (std::size_t g = 0; g < groups.groups(); ++g) label.add(groups.size(g));
  return {{.value = cells.value()}, {.value = cells.value() + label.value() - pairs.value()}};
}

}  // namespace fluxformer::information
