#pragma once

// How a small perturbation of the embedded input grows through depth: |du(s)| / |du(0)|.

#include <vector>

#include "analysis/model_probe.hpp"

namespace fluxformer::perturbation {

/// Accumulates the growth by depth: means over samples of the ratio of Euclidean norms over real tokens. Not
/// collective: samples may be spread over ranks, each whole on one rank.
class GrowthMeter {
 public:
  /// `context` is borrowed; a sample of length 0 is left out. Throws BadInput for tokens spread over ranks.
  GrowthMeter(int depths, const SlabContext& context);

  /// du at a depth, for the samples of the context; of every batch depth 0 first. Samples that are not moved
  /// there are left out at all depths.
  void add(int depth, const double* du);

  /// The state, additive: that of two meters summed is that of their samples together (to round-off).
  std::vector<double>& sums() { return sums_; }

  /// By depth; NaN without any sample.
  std::vector<double> growth() const;
  /// Samples that are in it.
  long samples() const;

 private:
  const SlabContext& context_;
  std::vector<double> start_;  // |du(0)| of each sample
  std::vector<double> sums_;   // [depth], then the samples
};

/// Of a finite perturbation: the difference of the marches from `moved` and from u. Both are row 0 of the
/// probe's batch. Cost: two forward passes; memory: a slab for each depth.
void add_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& moved,
                GrowthMeter& meter);

/// Of an infinitesimal one along v: the tangent of the march from u. Cost: about three forward passes.
void add_tangent_growth(ModelProbe& probe, const std::vector<double>& u, const std::vector<double>& v,
                        GrowthMeter& meter);

}  // namespace fluxformer::perturbation
