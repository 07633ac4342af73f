#pragma once

// Spectral density of a symmetric matrix by stochastic Lanczos quadrature. Sources: Golub and Meurant,
// "Matrices, Moments and Quadrature" (2010), chapters 6 and 7; Ubaru, Chen, Saad, SIAM J. Matrix Anal. Appl.
// 38 (2017) 1075.

#include <petscmat.h>
#include <petscvec.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace fluxformer::spectra {

/// Distribution of the entries: -1 or 1 with equal probability (Rademacher), or standard normal. Both have
/// E[v v^T] = 1, hence E[v^T H v] = trace H.
enum class Probe { rademacher, gaussian };

/// Fills v with random entries: entry i (global index) is number i of `stream`, the same on any number of
/// ranks. Every rank fills its own rows.
void fill_probe(Vec v, Probe kind, const RandomStream& stream);

/// Gauss quadrature of the measure of H at a vector v: sum_l weights_l nodes_l^q = v^T H^q v for q <= 2 m -
/// 1, where m is the number of nodes, and for every q where an invariant subspace ended the recurrence. Nodes
/// ascend; weights are not negative and add up to |v|^2.
struct Quadrature {
  std::vector<double> nodes, weights;
};

/// `steps` steps of Lanczos from `v` with double orthogonalisation against the whole basis: one product a
/// step, `steps` vectors in memory. Fewer nodes where the vectors H^q v span a smaller space (to round-off).
/// Collective. Throws BadInput for fewer than one step, NumericalFailure if v is 0 or a product is not
/// finite.
Quadrature lanczos_quadrature(Mat h, Vec v, int steps);

/// Number, kind and stream of the probes, and the number of Lanczos steps.
struct DensitySettings {
  int probes = 4, steps = 30;
  Probe kind = Probe::rademacher;
  std::uint64_t seed = 1;
};

/// One quadrature for each probe, where a probe is a random vector scaled to length 1: the mean over probes
/// of sum_l weights_l f(nodes_l) estimates trace f(H) / n. Probe k depends on the seed and k alone.
/// Collective; throws as lanczos_quadrature does, and BadInput for fewer than one probe.
std::vector<Quadrature> spectral_density(Mat h, const DensitySettings& settings);

/// Mean over the probes of sum_l weights_l N(x; nodes_l, width^2) at each x of `grid`: an estimate of the
/// density of the eigenvalues, broadened by a Gaussian with standard deviation `width`; its integral is 1.
/// 1/(unit of H). Not collective.
std::vector<double> broadened_density(std::span<const Quadrature> probes, std::span<const double> grid,
                                      double width);

}  // namespace fluxformer::spectra
