#include "analysis/hessian/block_spectra.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::hessian {

namespace {

/// Spacing and extent of a grid, in widths of the broadening.
constexpr double points_in_a_width = 5, widths_beyond = 6;

// Divergence sum p log2(p / m), where 0 log2 0 = 0; m >= p / 2 is not 0 in the other terms.
double divergence_from(std::span<const double> p, std::span<const double> m) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * std::log2(p[i] / m[i]);
  return sum;
}

std::vector<double> with_sum_1(std::span<const double> p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  std::vector<double> scaled(p.begin(), p.end());
  for (double& value : scaled) value /= sum;
  return scaled;
}

}  // namespace

// [(1/P) sum over the P probes of sum_l w_l lambda_l^2]^(1/2)
double rms_eigenvalue(std::span<const SpectralMeasure> probes) {
  double sum = 0;
  for (const auto& [nodes, weights] : probes)
    for (std::size_t l = 0; l < nodes.size(); ++l) sum += weights[l] * nodes[l] * nodes[l];
  return std::sqrt(sum / probes.size());
}

SpectralMeasure divided(SpectralMeasure measure, double scale) {
  for (double& node : measure.nodes) node /= scale;
  return measure;
}

SpectralGrid spectral_grid(std::span<const SpectralMeasure> measures, double lambda_0, double width) {
  for (const double positive : {lambda_0, width})
    if (!(positive > 0) || !std::isfinite(positive))
      throw BadInput("a grid of eigenvalues with lambda_0 = " + std::to_string(lambda_0) + " and the width " +
                     std::to_string(width) + ": both must be positive");
  // s = asinh(lambda / lambda_0) of the outermost nodes
  double least = std::numeric_limits<double>::infinity(), greatest = -least;
  for (const auto& measure : measures)
    for (const double node : measure.nodes) {
      if (!std::isfinite(node)) throw NumericalFailure("an eigenvalue that is not finite");
      least = std::min(least, std::asinh(node / lambda_0));
      greatest = std::max(greatest, std::asinh(node / lambda_0));
    }
  if (least > greatest) throw BadInput("a grid for no eigenvalues");
  SpectralGrid grid{lambda_0, width, {}};
  // s_i = begin + i width / 5, from six widths below the least to six above the greatest of them
  const double spacing = width / points_in_a_width, begin = least - widths_beyond * width;
  const int count = std::ceil((greatest + widths_beyond * width - begin) / spacing) + 1;
  for (int i = 0; i < count; ++i) grid.points.push_back(begin + i * spacing);
  return grid;
}

// (1/P) sum over the P probes of sum_l w_l N(s; s_l, width^2),  s_l = asinh(lambda_l / lambda_0)
std::vector<double> density_on(const SpectralGrid& grid, std::span<const SpectralMeasure> probes) {
  std::vector<double> density(grid.points.size(), 0.0);
  for (const auto& [nodes, weights] : probes) {
    std::vector<double> s = nodes;
    for (double& node : s) node = std::asinh(node / grid.lambda_0);
    const auto one = gaussian_mixture(s, weights, grid.width, grid.points);
    for (std::size_t i = 0; i < density.size(); ++i) density[i] += one[i] / probes.size();
  }
  return density;
}

double jensen_shannon_distance(std::span<const double> p, std::span<const double> q) {
  // D^2 = (1/2) sum p log2(p / m) + (1/2) sum q log2(q / m),  m = (p + q) / 2
  const auto a = with_sum_1(p), b = with_sum_1(q);
  std::vector<double> m;
  for (std::size_t i = 0; i < a.size(); ++i) m.push_back((a[i] + b[i]) / 2);
  const double divergence = (divergence_from(a, m) + divergence_from(b, m)) / 2;
  return std::sqrt(std::max(divergence, 0.0));  // for equal densities round-off may make it -1e-17
}

double BlockDistances::heterogeneity() const {
  double sum = 0;
  int pairs = 0;
  for (std::size_t a = 0; a < distances.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      if (std::isnan(distances[a][b])) continue;
      // A distance that sampling alone could make adds 0 to the sum, but its pair counts.
      if (distances[a][b] >= 2 * std::max(floors[a], floors[b])) sum += distances[a][b];
      ++pairs;
    }
  return pairs > 0 ? sum / pairs : std::numeric_limits<double>::quiet_NaN();
}

BlockDistances block_distances(const std::vector<std::vector<SpectralMeasure>>& blocks,
                               const SpectralComparison& comparison) {
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  std::vector<SpectralMeasure> all;
  for (const auto& probes : blocks) all.insert(all.end(), probes.begin(), probes.end());
  const std::size_t count = blocks.size();
  BlockDistances result{std::vector(count, std::vector(count, nothing)), std::vector(count, nothing)};
  if (all.empty()) return result;
  // One grid for all blocks: densities are compared point by point.
  const auto grid = spectral_grid(all, comparison.lambda_0, comparison.width);
  std::vector<std::vector<double>> densities(count);
  for (std::size_t a = 0; a < count; ++a) {
    if (blocks[a].empty()) continue;
    densities[a] = density_on(grid, blocks[a]);
    result.floors[a] = blocks[a].size() > 1 ? distance_of_halves(grid, blocks[a]) : 0;
  }
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (!densities[a].empty() && !densities[b].empty())
        result.distances[a][b] = a == b ? 0 : jensen_shannon_distance(densities[a], densities[b]);
  return result;
}

double distance_of_halves(const SpectralGrid& grid, std::span<const SpectralMeasure> probes) {
  // Both halves estimate the density of the same block, so that their distance is due to sampling.
  const std::size_t half = probes.size() / 2;
  return jensen_shannon_distance(density_on(grid, probes.first(half)),
                                 density_on(grid, probes.subspan(half)));
}

BlockSpectra block_spectra(Mat h, const std::vector<spectra::Block>& blocks,
                           const spectra::DensitySettings& settings, const SpectralComparison& comparison) {
  if (settings.probes < 2) throw BadInput("spectra of blocks need at least two probes");
  BlockSpectra result;
  std::vector<std::vector<SpectralMeasure>> scaled;
  for (const auto& block : blocks) {
    const auto matrix = spectra::restricted(h, block);
    result.densities.push_back(spectra::spectral_density(matrix, settings));
    std::vector<SpectralMeasure> measures;
    for (const auto& one : result.densities.back()) measures.push_back({one.nodes, one.weights});
    result.rms.push_back(rms_eigenvalue(measures));
    // Eigenvalues over their root mean square; a block that is zero has none, and keeps an empty list.
    auto& list = scaled.emplace_back();
    if (result.rms.back() == 0) continue;
    for (const auto& one : measures) list.push_back(divided(one, result.rms.back()));
  }
  result.apart = block_distances(scaled, comparison);
  return result;
}

}  // namespace fluxformer::hessian
