#pragma once

// Hidden states by depth, over many samples: size, spread over tokens, distance from the previous depth and
// from the embedding, and alignment with the states of another model.

#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"
#include "analysis/states/slab_sums.hpp"
#include "base/index.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::states {

/// Measures of states, one number for each depth i = 0 .. depths - 1. norm has the unit of u, the next two
/// its square, the others none. The first three are taken over real tokens, samples and channels together, as
/// in DepthResult. The others are means over samples of one number for each sample, with u_i its real tokens
/// and channels as one vector. If that number is not defined (a state of norm 0; for the correlation, a
/// constant state) it counts as 0 (drift: 1). At i = 0 the previous state is u_0 itself.
struct StateResult {
  std::vector<double> norm;              ///< root mean square of u
  std::vector<double> token_variance;    ///< mean square distance to the token mean, per number
  std::vector<double> dirichlet_energy;  ///< half the mean square difference to the next tokens, per channel
  std::vector<double> correlation;       ///< Pearson correlation of the numbers of u_i and u_{i-1}
  std::vector<double> drift;             ///< 1 - cos(u_i, u_0), in [0, 2]
  std::vector<double> step_change;       ///< |u_i - u_{i-1}| / |u_{i-1}|
  long samples = 0;
};

/// Drift 1 - cos(u, first) of the state u of one sample from its first state.
double drift_of(const SampleView& u, const SampleView& first);

/// Accumulates StateResult. Samples may be distributed over ranks, each whole on one rank; only `reduce` is
/// collective.
class StateAccumulator : public Accumulator {
 public:
  /// `context` is borrowed; the lengths of its mask may change from batch to batch, a sample of length 0 is
  /// left out. Throws BadInput for tokens that are distributed over ranks.
  StateAccumulator(int depths, const SlabContext& context);

  /// Adds the slabs u_i, u_{i-1}, u_0 of the samples of the context at one depth; null stands for u_i. Every
  /// batch must be added once at every depth. The caller chooses the depths: compare models at the same
  /// spacing, as step_change grows with it.
  void add(int depth, const double* u, const double* previous, const double* first);

  /// Result over all samples; NaN without any.
  StateResult result() const;

 private:
  const SlabContext& context_;  // the sums are [depth][SlabSums, then those over samples]
  SlabSums slab_sums_;
};

// Linear centred kernel alignment between every depth of one model and every depth of another. For examples
// as rows of X (n x d_a) and Y (n x d_b), with column means removed,
//
//   CKA(X, Y) = |Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F)      in [0, 1], no unit,
//
// which is invariant under rotations and scalings of either side. Source: Kornblith, Norouzi, Lee, Hinton,
// arXiv 1905.00414, eq. (5), the form in feature space: examples need not be stored. The caller chooses what
// an example is, a pooled sample or a token (state_examples.hpp).
//
// CKA is biased upwards unless there are many more examples than features: two unrelated standard Gaussian
// states have about sqrt(d_a d_b / ((n + d_a)(n + d_b))). Its null control is the exact mean over all n!
// pairings of the examples of one model with those of the other,
//
//   tr(X^T X) tr(Y^T Y) / ((n - 1) |X^T X|_F |Y^T Y|_F),
//
// the score of states with these spectra whose examples are unrelated.

/// Accumulates the moments from which CKA is computed. Examples may be distributed over ranks, each whole on
/// one rank; only `reduce` is collective. Memory: D_a D_b d_a d_b + D_a d_a^2 + D_b d_b^2 numbers; cost of an
/// example: twice as many flops.
class CkaAccumulator : public Accumulator {
 public:
  /// Numbers of depths, and of channels of an example, of one of the two models.
  struct Side {
    int depths = 1, width = 1;
  };
  /// Throws BadInput for a depth or width below 1.
  CkaAccumulator(Side a, Side b);

  /// Adds examples, the same and in the same order for both sides: a[depth] and b[depth] point to
  /// [example][channel]. Most efficient with many at a time.
  void add(int examples, const std::vector<const double*>& a, const std::vector<const double*>& b);

  double examples() const { return total()[0]; }
  /// CKA, [depth of A][depth of B]; NaN if a side does not vary over the examples (up to round-off). Means
  /// are subtracted from raw moments: the relative error is about 1e-16 (1 + |mean|^2 / variance).
  std::vector<double> alignment() const { return table(false); }
  /// Null control of CKA, [depth of A][depth of B].
  std::vector<double> unrelated() const { return table(true); }

 private:
  std::vector<double> table(bool unrelated) const;
  Side a_, b_;
  // The sums: number of examples | sums of A, of B | X^T X of each depth of A, of B | Y^T X of each pair
  Index mean_a_, mean_b_, own_a_, own_b_, cross_;
};

/// Measures of the states of a model, the same on all ranks.
struct ModelStates {
  StateResult by_row;  ///< measures at all rows of the probe: norm, token_variance and dirichlet_energy only
  StateResult by_layer;  ///< measures at the embedded input and the end of each layer, from one to the next
  /// Root mean square over the channels of each token, [sample][row][token] for the first `examples` samples;
  /// NaN for padding.
  std::vector<double> token_norms;
  /// Share of samples whose most likely class is the label; of a model that guesses words, of the words.
  double accuracy = 0;
  /// Root mean square of the state of each sample, and its drift, [sample][end of a layer].
  std::vector<double> norm_by_sample, drift_by_sample;
  /// [sample]: 1 if the most likely class is the label, else 0; nothing for a model that guesses words.
  std::vector<double> correct_by_sample;
};

/// Measures of the states of a model, whose depth cells end where layers do. The probe holds as many samples
/// as a batch. Cost: a forward pass. Collective over the ranks of the samples.
ModelStates measure_states(const SampleSet& samples, ModelProbe& probe, Index examples);

/// CKA of every depth of A with every depth of B, the same on all ranks. The probes hold as many samples as a
/// batch. Cost: a forward pass of each model. Collective over the ranks of the samples.
CkaAccumulator align(const SampleSet& samples, ModelProbe& a, ModelProbe& b, Examples what);

/// Root mean square over the channels of every token of a sample; NaN for padding. Not collective; needs all
/// tokens on this rank.
std::vector<double> token_norms(const SlabContext& context, const double* u, int sample);

}  // namespace fluxformer::states
