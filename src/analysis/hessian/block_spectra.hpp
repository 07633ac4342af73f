#pragma once

// Spectral densities of the diagonal blocks of a Hessian and the distances between them: its heterogeneity.

#include <petscmat.h>

#include <vector>

#include "analysis/hessian/spectral_distance.hpp"
#include "solvers/spectra/blocks.hpp"
#include "solvers/spectra/spectral_density.hpp"

namespace fluxformer::hessian {

/// How densities are compared: eigenvalues in units of the root mean square eigenvalue of their block.
struct SpectralComparison {
  double lambda_0 = 0.01;  ///< where the axis turns from linear to logarithmic
  double width = 0.2;      ///< broadening, in asinh(lambda / lambda_0)
};

/// Of each block, and of each pair of blocks.
struct BlockSpectra {
  std::vector<std::vector<spectra::Quadrature>> densities;  ///< [block][probe]
  std::vector<double> rms;                                  ///< ||H_b||_F / sqrt(p_b), of the quadratures
  std::vector<std::vector<double>> distances;  ///< [block][block], Jensen-Shannon; 0 on the diagonal
  std::vector<double> floors;  ///< between two halves of the probes of a block: what sampling makes
  /// Mean over the pairs of blocks, those below twice the larger of their floors counted as 0; NaN for less than
  /// two blocks.
  double heterogeneity() const;
};

/// Blocks that are zero have distance NaN. Collective over the ranks of `h`; throws as spectral_density and
/// check_block do, and BadInput for fewer than two probes.
BlockSpectra block_spectra(Mat h, const std::vector<spectra::Block>& blocks,
                           const spectra::DensitySettings& settings, const SpectralComparison& comparison);

}  // namespace fluxformer::hessian
