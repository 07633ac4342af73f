#pragma once

// Trace, Frobenius norm and blocks of a symmetric matrix by random probes, with standard errors. Each product
// is one with H.

#include <petscmat.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/statistics.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::spectra {

/// Number of sketch vectors and of probes: 2 sketch + probes products.
struct TraceSettings {
  int sketch = 10, probes = 10;
  std::uint64_t seed = 1;
};
/// An estimate of trace H, captured + rest.mean, with the standard error of rest.
struct TraceEstimate {
  double captured = 0;  ///< trace Q^T H Q, exact
  Estimate rest;        ///< estimate of the trace of (1 - Q Q^T) H (1 - Q Q^T), by probe
  double trace() const { return captured + rest.mean; }
};
/// Hutch++ with Rademacher probes: Q spans H times `sketch` random vectors, the rest is Hutchinson's
/// estimate. Exact to round-off for a rank of at most `sketch`. Source: Meyer, Musco, Musco, Woodruff,
/// "Hutch++: Optimal Stochastic Trace Estimation", SOSA 2021 (arXiv 2010.09649), algorithm 1 (there sketch =
/// probes = m/3). Collective. Throws BadInput for a negative sketch or fewer than 2 probes, NumericalFailure
/// if a product is not finite.
TraceEstimate hutch_plus_plus(Mat h, const TraceSettings& settings);

/// Number and seed of Rademacher probes, each of which costs one product.
struct ProbeSettings {
  int probes = 10;
  std::uint64_t seed = 1;
};

/// Estimates by Hutchinson's estimator, all from the same products.
struct HutchinsonEstimates {
  /// ||H||_F^2, the mean of |H v|^2; its variance is 2 (||M||_F^2 - sum M_ii^2) a probe, M = H^2.
  Estimate frobenius_squared;
  std::vector<Estimate> block_traces;  ///< sum of H_ii over each block, mean of sum v_i (H v)_i
};
/// Hutchinson's estimates of the norm and of the traces of blocks. Source: Hutchinson, Commun. Stat. Simul.
/// Comput. 18 (1989) 1059. Blocks may overlap. Collective. Throws BadInput for fewer than 2 probes or as
/// check_block does, NumericalFailure if a product is not finite.
HutchinsonEstimates hutchinson(Mat h, std::span<const Block> blocks, const ProbeSettings& settings);

/// Estimates for each pair of blocks, and for each block.
struct BlockEstimates {
  std::vector<std::vector<Estimate>> frobenius_squared;  ///< [rows][columns]: ||H_rc||_F^2
  std::vector<Estimate> traces;  ///< less noise than `hutchinson`: v is 0 outside of the block
};
/// Norms and traces of blocks by probes that are 0 outside of one block: probes x blocks products, each of
/// which serves all blocks of rows. Collective; throws as `hutchinson` does.
BlockEstimates block_norms(Mat h, std::span<const Block> blocks, const ProbeSettings& settings);

}  // namespace fluxformer::spectra
