#include "analysis/hessian/block_spectra.hpp"

#include "base/error.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::hessian {

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
    auto& list = scaled.emplace_back();
    if (result.rms.back() == 0) continue;
    for (const auto& one : measures) list.push_back(divided(one, result.rms.back()));
  }
  result.apart = block_distances(scaled, comparison);
  return result;
}

}  // namespace fluxformer::hessian
