#pragma once

// Spectrum of hidden states by depth: singular values of the n x d matrix U of a sample's real tokens and
// channels, and how many of them matter,
//
//   r = exp(-sum_k p_k ln p_k),    p_k = sigma_k / sum_j sigma_j,    1 <= r <= min(n, d),
//
// the effective rank of Roy and Vetterli (EUSIPCO 2007, 606). r = 1: all tokens are parallel, as attention
// alone makes them (Dong, Cordonnier, Loukas, arXiv 2103.03404). 0 for U = 0.

#include <Eigen/Core>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"

namespace fluxformer::states {

/// r from singular values, none of them below 0: 0 if all are 0, NaN if one is not finite. Not collective.
double effective_rank_of(const Eigen::VectorXd& sigma);

/// Accumulates singular values and effective ranks: means over samples. Samples may be distributed over
/// ranks, each whole on one rank; only `reduce` is collective. Cost of a sample at one depth: O(n d min(n,
/// d)) flops.
class SpectrumAccumulator : public Accumulator {
 public:
  /// Keeps `modes` singular values; there are at most min(tokens, channels). `context` is borrowed; the
  /// lengths of its mask may change from batch to batch, a sample of length 0 is left out. Throws BadInput
  /// for tokens that are distributed over ranks.
  SpectrumAccumulator(int depths, int modes, const SlabContext& context);

  /// Adds the samples of the context at one depth. Every batch must be added once at every depth.
  void add(int depth, const double* u);

  /// Singular values sigma_k / |U|_F, [depth][mode], the largest first; their squares sum to 1 for each
  /// sample. 0 if there is no k-th singular value, and for U = 0. NaN without samples.
  std::vector<double> singular_values() const;
  /// Effective rank r, [depth]. NaN without samples, or if a state is not finite.
  std::vector<double> effective_rank() const;

 private:
  std::vector<double> means(Index first, Index count) const;
  const SlabContext& context_;
  Index modes_;  // the sums are [depth][samples | r | sigma_k / |U|_F]
};

/// Spectra at all rows of the probe. Cost: a forward pass and the spectra. Collective over the ranks of the
/// samples.
SpectrumAccumulator measure_spectrum(const SampleSet& samples, ModelProbe& probe, int modes);

}  // namespace fluxformer::states
