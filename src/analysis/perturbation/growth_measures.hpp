#pragma once

// How a small perturbation of the embedded input grows through depth: |du(s)| / |du(0)|.

#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"

namespace fluxformer::perturbation {

/// Accumulates the growth by depth: means over samples of the ratio of Euclidean norms over real tokens.
/// Samples may be spread over ranks, each whole on one rank; only `reduce` is collective.
class GrowthMeter : public Accumulator {
 public:
  /// `context` is borrowed; a sample of length 0 is left out. Throws BadInput for tokens spread over ranks.
  GrowthMeter(int depths, const SlabContext& context);

  /// Adds du at a depth, for the samples of the context; depth 0 first for every batch. Samples with du = 0
  /// there are left out at all depths.
  void add(int depth, const double* du);

  /// By depth; NaN without any sample.
  std::vector<double> growth() const;
  /// Number of samples that count.
  long samples() const;

 private:
  const SlabContext& context_;  // the sums are [depth], then the samples
  std::vector<double> start_;   // |du(0)| of each sample of the batch
};

/// Adds the growth of a finite perturbation: the difference of the marches from `moved` and from u, both row
/// 0 of the probe's batch. Cost: two forward passes; memory: a slab for each depth.
void add_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& moved,
                GrowthMeter& meter);

/// Adds the growth of an infinitesimal one along v: the tangent of the march from u. Cost: about three
/// forward passes.
void add_tangent_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& v,
                        GrowthMeter& meter);

}  // namespace fluxformer::perturbation
