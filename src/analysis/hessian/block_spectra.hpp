#pragma once

// Spectral densities of the diagonal blocks of a Hessian and the distances between them: its heterogeneity.

#include <petscmat.h>

#include <vector>

#include "analysis/hessian/spectral_distance.hpp"
#include "solvers/spectra/blocks.hpp"
#include "solvers/spectra/spectral_density.hpp"

namespace fluxformer::hessian {

/// Of each block, and of each pair of blocks.
struct BlockSpectra {
  std::vector<std::vector<spectra::Quadrature>> densities;  ///< [block][probe]
  std::vector<double> rms;                                  ///< ||H_b||_F / sqrt(p_b), of the quadratures
  BlockDistances apart;
};

/// Collective over the ranks of `h`; throws as spectral_density and check_block do, and BadInput for fewer than two
/// probes.
BlockSpectra block_spectra(Mat h, const std::vector<spectra::Block>& blocks,
                           const spectra::DensitySettings& settings, const SpectralComparison& comparison);

}  // namespace fluxformer::hessian
