#pragma once

// Gradient of the mean cross entropy of some samples, with respect to their states at every depth and to
// every group of parameters. The loss of a sample is that of its class; for a model that guesses words, the sum over
// its words, divided by the mean number of words of a sample: its mean over samples is the mean over words.

#include <span>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"
#include "model/parameters.hpp"
#include "model/sample_set.hpp"
#include "operators/slab.hpp"

namespace fluxformer::derivatives {

/// Sizes of the gradients of a loss by depth. Each sample has its own loss (not divided by their number);
/// units: that loss per unit of u.
struct GradientResult {
  std::vector<double> norm;   ///< root mean square over samples of |d loss / d u_i|, i = 0 .. depths - 1
  std::vector<double> ratio;  ///< norm_i / norm_{i+1}: growth of the gradient backwards; 1 at the last depth
  double disparity = 0;       ///< largest over smallest norm; 1 if the norm is the same at every depth
  long samples = 0;
};

/// Accumulates GradientResult. Samples may be distributed over ranks, each whole on one rank; only `reduce`
/// is collective.
class GradientAccumulator : public Accumulator {
 public:
  /// `context` is borrowed; the lengths of its mask may change from batch to batch, a sample of length 0 is
  /// left out. Throws BadInput for tokens that are distributed over ranks.
  GradientAccumulator(int depths, const SlabContext& context);

  /// Adds the slab d loss / d u_i of the samples of the context at one depth. Every batch must be added once
  /// at every depth. The caller chooses the depths: compare models at the same spacing.
  void add(int depth, const double* u_bar);

  /// Result over all samples; NaN without any.
  GradientResult result() const;

 private:
  const SlabContext& context_;  // the sums are [depth][sum of squares, samples]
};

/// Gradient of a group of parameters (ParameterView::group): the embedding, one knot, ...
struct GroupNorm {
  std::string group;
  Index parameters = 0;  ///< number of parameters
  double norm = 0;       ///< Euclidean norm of the gradient
};

/// Norms of the groups of a flat gradient, in the order of the layout. Not collective.
std::vector<GroupNorm> group_norms(const ParameterLayout& layout, std::span<const double> gradient);

/// Gradients of a loss by depth and by parameter.
struct LossGradients {
  double loss = 0;                 ///< mean loss of the samples
  GradientResult by_row;           ///< sizes at all rows of the probe
  GradientResult by_layer;         ///< sizes at the embedded input and the end of each layer
  std::vector<double> parameters;  ///< gradient of the mean loss, flat
  /// Root mean square over samples of |u| |d loss / d u| at all rows: the change of the loss for a relative
  /// change of the state, whatever the scale of u. Unit: that of the loss.
  std::vector<double> size;
  /// |d loss / d u| and |u| |d loss / d u| of each sample's own loss, [sample][row where a layer ends].
  std::vector<double> norm_by_sample, size_by_sample;
};

/// Gradients of the mean cross entropy of the model's head, the same on all ranks. The probe holds as many samples as a batch of
/// `samples`, and its cells end where layers do. Cost: a forward and a backward pass. Collective over the
/// ranks of the samples.
LossGradients loss_gradients(const SampleSet& samples, ModelProbe& probe);

}  // namespace fluxformer::derivatives
