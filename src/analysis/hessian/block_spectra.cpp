#include "analysis/hessian/block_spectra.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::hessian {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

std::vector<SpectralMeasure> measures_of(const std::vector<spectra::Quadrature>& probes) {
  std::vector<SpectralMeasure> measures(probes.size());
  std::ranges::transform(probes, measures.begin(), [](const auto& one) {
    return SpectralMeasure{one.nodes, one.weights};
  });
  return measures;
}

}  // namespace

double BlockSpectra::heterogeneity() const {
  double sum = 0;
  int pairs = 0;
  for (std::size_t a = 0; a < distances.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      if (distances[a][b] >= 2 * std::max(floors[a], floors[b])) sum += distances[a][b];
      ++pairs;
    }
  return pairs > 0 ? sum / pairs : nothing;
}

BlockSpectra block_spectra(Mat h, const std::vector<spectra::Block>& blocks,
                           const spectra::DensitySettings& settings, const SpectralComparison& comparison) {
  if (settings.probes < 2) throw BadInput("spectra of blocks need at least two probes");
  BlockSpectra result;
  std::vector<std::vector<SpectralMeasure>> scaled;
  std::vector<SpectralMeasure> all;
  for (const auto& block : blocks) {
    const auto matrix = spectra::restricted(h, block);
    result.densities.push_back(spectra::spectral_density(matrix, settings));
    const auto measures = measures_of(result.densities.back());
    result.rms.push_back(rms_eigenvalue(measures));
    scaled.emplace_back();
    for (const auto& one : measures) {
      if (result.rms.back() == 0) continue;
      scaled.back().push_back(divided(one, result.rms.back()));
      all.push_back(scaled.back().back());
    }
  }
  const std::size_t count = blocks.size();
  result.distances.assign(count, std::vector<double>(count, nothing));
  result.floors.assign(count, nothing);
  if (all.empty()) return result;
  const auto grid = spectral_grid(all, comparison.lambda_0, comparison.width);
  std::vector<std::vector<double>> densities(count);
  for (std::size_t a = 0; a < count; ++a)
    if (!scaled[a].empty()) {
      densities[a] = density_on(grid, scaled[a]);
      result.floors[a] = distance_of_halves(grid, scaled[a]);
    }
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (!densities[a].empty() && !densities[b].empty())
        result.distances[a][b] = a == b ? 0 : jensen_shannon_distance(densities[a], densities[b]);
  return result;
}

}  // namespace fluxformer::hessian
