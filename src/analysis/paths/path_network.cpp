#include "analysis/paths/path_network.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.hpp"

namespace fluxformer::paths {

double PathNetwork::prior_variance(int from) const {
  return std::accumulate(variances.begin() + (from - 1), variances.end(), readout_variance,
                         std::multiplies<>());
}

int PathNetwork::order_size(int l) const {
  return std::accumulate(heads.begin() + (l - 1), heads.end(), 1, std::multiplies<>());
}

double PathNetwork::largest_width() const {
  return *std::ranges::max_element(widths);
}

PathNetwork network_of_width(const std::vector<int>& heads, double width) {
  return {.heads = heads,
          .widths = std::vector<double>(heads.size() + 1, width),
          .variances = std::vector<double>(heads.size(), 1.0)};
}

void check(const PathNetwork& network) {
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  if (network.heads.empty() || std::ranges::any_of(network.heads, [](int heads) { return heads < 1; }))
    throw BadInput("a network of attention paths needs at least one layer, and a head in each");
  if (network.widths.size() != network.heads.size() + 1 || network.variances.size() != network.heads.size())
    throw BadInput("a network of " + std::to_string(network.layers()) +
                   " attention layers needs one width more, and as many variances");
  if (!std::ranges::all_of(network.widths, positive) || !std::ranges::all_of(network.variances, positive) ||
      !positive(network.input_variance) || !positive(network.readout_variance))
    throw BadInput("widths and variances of a network of attention paths must be positive");
}

void check_whole_widths(const PathNetwork& network) {
  for (const double width : network.widths)
    if (width != std::floor(width) || width > 1e9)
      throw BadInput(
          "the weights of a network of attention paths can only be drawn if its widths are whole numbers");
}

}  // namespace fluxformer::paths
