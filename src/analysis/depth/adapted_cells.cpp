#include "analysis/depth/adapted_cells.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analysis/depth/rounded.hpp"

namespace fluxformer::depth {
namespace {

std::vector<double> rounded_sizes(std::vector<double> indicators) {
  for (double& eta : indicators) eta = std::abs(eta);
  return rounded(std::move(indicators));
}

}  // namespace

double predicted_gain(const DepthCells& depth, const std::vector<double>& indicators, int order) {
  double sum = 0, roots = 0;
  for (int cell = 1; cell <= depth.cells; ++cell) {
    const double size = std::abs(indicators[cell - 1]);
    sum += size * std::pow(depth.layers / depth.length(cell), order);
    roots += std::pow(size, 1.0 / (order + 1));
  }
  return sum / std::pow(roots, order + 1);
}

std::vector<bool> marked_cells(const std::vector<double>& indicators, double theta, int most) {
  const auto sizes = rounded_sizes(indicators);
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  double all = 0, sum = 0;
  for (const auto cell : order) all += sizes[cell];
  std::vector<bool> marked(sizes.size(), false);
  for (const auto cell : order) {
    if (sum >= theta * all || most-- <= 0 || sizes[cell] == 0) break;
    marked[cell] = true;
    sum += sizes[cell];
  }
  return marked;
}

DepthCells bisected(const DepthCells& depth, const std::vector<bool>& marked) {
  std::vector<double> edges{0};
  for (int cell = 1; cell <= depth.cells; ++cell) {
    if (marked[cell - 1]) edges.push_back(depth.at(cell, 0.5).s);
    edges.push_back(depth.depth(cell));
  }
  return DepthCells::between(depth.layers, std::move(edges));
}

DepthCells equidistributed(const DepthCells& depth, const std::vector<double>& indicators, int cells,
                           int order) {
  const auto sizes = rounded_sizes(indicators);
  const double root = 1.0 / (order + 1);
  std::vector<double> density(sizes.size());  // g^root
  for (int cell = 1; cell <= depth.cells; ++cell)
    density[cell - 1] = std::pow(sizes[cell - 1], root) / depth.length(cell);
  const double largest = *std::ranges::max_element(density);
  if (largest == 0) return {depth.layers, cells};
  for (double& one : density) one = std::max(one, std::pow(1e-6, root) * largest);
  std::vector<double> integral{0};  // up to each edge
  for (int cell = 1; cell <= depth.cells; ++cell)
    integral.push_back(integral.back() + density[cell - 1] * depth.length(cell));
  std::vector<double> edges{0};
  int cell = 1;
  for (int row = 1; row < cells; ++row) {
    const double wanted = integral.back() * row / cells;
    while (integral[cell] < wanted) ++cell;
    edges.push_back(depth.depth(cell - 1) + (wanted - integral[cell - 1]) / density[cell - 1]);
  }
  edges.push_back(depth.layers);
  return DepthCells::between(depth.layers, std::move(edges));
}

}  // namespace fluxformer::depth
