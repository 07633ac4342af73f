#pragma once

// Hidden states by depth, over many samples: size, spread over tokens, and distance from the previous depth
// and from the embedding.

#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/state_examples.hpp"
#include "analysis/states/slab_sums.hpp"

namespace fluxformer::states {

/// One number per depth i = 0 .. depths - 1. norm has the unit of u, the next two its square, the others
/// none. The first three are taken over real tokens, samples and channels together, as in DepthMeasures. The
/// others are means over samples of a number per sample, with u_i its real tokens and channels as one vector.
/// Where that number is not defined (a state of norm 0; for the correlation, a constant state) it counts as 0
/// (drift: 1). At i = 0 the previous state is u_0 itself.
struct StateMeasures {
  std::vector<double> norm;              ///< root mean square of u
  std::vector<double> token_variance;    ///< mean square distance to the token mean, per number
  std::vector<double> dirichlet_energy;  ///< half the mean square difference to the next tokens, per channel
  std::vector<double> correlation;       ///< Pearson, of the numbers of u_i with those of u_{i-1}
  std::vector<double> drift;             ///< 1 - cos(u_i, u_0), in [0, 2]
  std::vector<double> step_change;       ///< |u_i - u_{i-1}| / |u_{i-1}|
  long samples = 0;
};

/// The drift of one sample with the state u from u_0.
double drift_of(const SampleView& u, const SampleView& first);

/// Accumulates StateMeasures. Samples may be spread over ranks, each whole on one rank; only `reduce` is
/// collective.
class StateMeter : public Accumulator {
 public:
  /// `context` is borrowed; the lengths of its mask may change from batch to batch, a sample of length 0 is
  /// left out. Throws BadInput for tokens spread over ranks.
  StateMeter(int depths, const SlabContext& context);

  /// Adds the samples of the context at one depth: slabs u_i, u_{i-1}, u_0; null stands for u_i. Every batch
  /// must be added once at every depth. The caller chooses the depths: compare models at the same spacing, as
  /// step_change grows with it.
  void add(int depth, const double* u, const double* previous, const double* first);

  /// NaN without samples.
  StateMeasures measures() const;

 private:
  const SlabContext& context_;  // the sums are [depth][SlabSums, then those over samples]
  SlabSums slab_sums_;
};

}  // namespace fluxformer::states
