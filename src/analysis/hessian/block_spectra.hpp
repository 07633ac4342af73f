#pragma once

// Spectral densities of the diagonal blocks of a Hessian, and the distances between them: its heterogeneity.
// Source: Zhang, Chen, Ding, Li, Sun, Luo, "Why Transformers Need Adam: A Hessian Perspective", NeurIPS 2024
// (arXiv 2402.16788).

#include <petscmat.h>
#include <span>
#include <vector>

#include "solvers/spectra/blocks.hpp"
#include "solvers/spectra/spectral_density.hpp"

namespace fluxformer::hessian {

/// Eigenvalues, or the nodes of a quadrature of their density, with weights that sum to 1.
struct SpectralMeasure {
  std::vector<double> nodes, weights;
};

/// Root mean square eigenvalue (sum_l weights_l nodes_l^2)^1/2, averaged over the probes (at least one): an
/// estimate of ||H||_F / sqrt(p) for a block with p parameters.
double rms_eigenvalue(std::span<const SpectralMeasure> probes);
/// Measure with its nodes divided by `scale`, which makes blocks of different size and magnitude comparable.
SpectralMeasure divided(SpectralMeasure measure, double scale);

/// Axis on which densities are compared: s = asinh(lambda / lambda_0), linear below lambda_0 and logarithmic
/// above, for both signs. Distances depend on lambda_0 and on the broadening.
struct SpectralGrid {
  double lambda_0 = 0;         ///< unit of the nodes
  double width = 0;            ///< standard deviation of the Gaussian broadening, in s
  std::vector<double> points;  ///< s, equally spaced: a fifth of the width
};
/// One grid for all `measures`, six widths beyond their outermost nodes on either side. Throws BadInput
/// unless lambda_0 and width are positive and finite and there is a node, NumericalFailure for a node that is
/// not finite.
SpectralGrid spectral_grid(std::span<const SpectralMeasure> measures, double lambda_0, double width);

/// Mean broadened density of the probes in s at the points of the grid. Its sum times the spacing is 1 to
/// round-off: the trapezoidal rule for Gaussians errs by exp(-2 pi^2 25).
std::vector<double> density_on(const SpectralGrid& grid, std::span<const SpectralMeasure> probes);

/// Jensen-Shannon distance of two densities at the points of one grid: square root of the Jensen-Shannon
/// divergence in bits,
///   (1/2 sum p log2(p/m) + 1/2 sum q log2(q/m))^1/2,   m = (p + q) / 2,  p and q scaled to the sum 1,
/// 0 for equal densities, 1 for densities without overlap, a metric (Endres and Schindelin, IEEE Trans. Inf.
/// Theory 49 (2003) 1858).
double jensen_shannon_distance(std::span<const double> p, std::span<const double> q);

/// Distance between the first and the second half of the probes of one block (at least two), which sampling
/// alone makes.
double distance_of_halves(const SpectralGrid& grid, std::span<const SpectralMeasure> probes);

/// Axis and broadening of a comparison of blocks.
struct SpectralComparison {
  double lambda_0 =
      0.1;             ///< eigenvalue, over the root mean square one, at which the axis becomes logarithmic
  double width = 0.5;  ///< broadening, in asinh(lambda / lambda_0)
};

/// Distances between all pairs of blocks.
struct BlockDistances {
  std::vector<std::vector<double>> distances;  ///< [block][block]: Jensen-Shannon distance; 0 on the diagonal
  /// [block]: distance between two halves of the probes of a block, which sampling alone makes; 0 for one
  /// probe.
  std::vector<double> floors;
  /// Mean distance over the pairs of blocks that are not zero; a distance below twice the larger of the two
  /// floors counts as 0. NaN without such a pair.
  double heterogeneity() const;
};
/// Distances between blocks, given as the probes of each block, scaled to a mean square of 1. A block that is
/// zero has no probes; its distances and floor are NaN. An exact spectrum is one measure.
BlockDistances block_distances(const std::vector<std::vector<SpectralMeasure>>& blocks,
                               const SpectralComparison& comparison);

/// Spectra of the diagonal blocks, and distances between them.
struct BlockSpectra {
  std::vector<std::vector<spectra::Quadrature>> densities;  ///< [block][probe]
  std::vector<double> rms;  ///< [block]: ||H_b||_F / sqrt(p_b) of the quadratures
  BlockDistances apart;
};

/// Spectra of diagonal blocks of a matrix. Collective over the ranks of `h`. Throws as spectral_density and
/// check_block do, and BadInput for fewer than two probes.
BlockSpectra block_spectra(Mat h, const std::vector<spectra::Block>& blocks,
                           const spectra::DensitySettings& settings, const SpectralComparison& comparison);

}  // namespace fluxformer::hessian
