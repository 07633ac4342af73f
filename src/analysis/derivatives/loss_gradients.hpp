#pragma once

// Size of the gradient of a loss, with respect to the states at every depth and to every group of parameters.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "model/parameters.hpp"
#include "model/sample_set.hpp"
#include "operators/slab.hpp"

namespace fluxformer::derivatives {

/// Over samples. Each sample has its own loss (not divided by their number); units: that loss per unit of u.
struct GradientResult {
  std::vector<double> norm;   ///< root mean square over samples of |d loss / d u_i|, for i = 0 .. depths - 1
  std::vector<double> ratio;  ///< norm_i / norm_{i+1}: growth of the gradient backwards; 1 at the last depth
  double disparity = 0;       ///< largest over smallest norm; 1 is the same at every depth
  long samples = 0;
};

/// Accumulates GradientResult. Samples may be spread over ranks, each whole on one rank; only `reduce` is
/// collective.
class GradientAccumulator : public Accumulator {
 public:
  /// `context` is borrowed; the lengths of its mask may change from batch to batch, a sample of length 0 is
  /// left out. Throws BadInput for tokens spread over ranks.
  GradientAccumulator(int depths, const SlabContext& context);

  /// Adds the samples of the context at one depth: the slab d loss / d u_i. Every batch must be added once at
  /// every depth. The caller chooses the depths: compare models at the same spacing.
  void add(int depth, const double* u_bar);

  /// NaN without samples.
  GradientResult result() const;

 private:
  const SlabContext& context_;  // the sums are [depth][sum of squares, samples]
};

/// Gradient of a group of parameters (ParameterView::group): the embedding, one knot, ...
struct GroupNorm {
  std::string group;
  std::size_t parameters = 0;  ///< their number
  double norm = 0;             ///< Euclidean norm of their gradient
};

/// In the order of the layout. `gradient` is flat, of one loss or of the mean over samples. Not collective.
std::vector<GroupNorm> group_norms(const ParameterLayout& layout, std::span<const double> gradient);

// The gradient of the mean cross entropy of some samples: with respect to their states at every depth, and to
// the parameters.

/// Gradients by depth and by parameter.
struct LossGradients {
  double loss = 0;                 ///< mean over the samples
  GradientResult by_row;           ///< at all rows of the probe
  GradientResult by_layer;         ///< at the embedded input and the end of each layer
  std::vector<double> parameters;  ///< of the mean loss, flat
  /// Root mean square over samples of |u| |d loss / d u| at all rows: the change of the loss for a relative
  /// change of the state, whatever the scale of u. Unit: that of the loss.
  std::vector<double> size;
  /// Of each sample's own loss, [sample][row where a layer ends]: |d loss / d u|, and |u| times it.
  std::vector<double> norm_by_sample, size_by_sample;
};

/// The same on all ranks. The probe holds as many samples as a batch of `samples`, and its cells end where
/// layers do. Cost: a forward and a backward pass. Collective over the ranks of the samples.
LossGradients loss_gradients(const SampleSet& samples, ModelProbe& probe);

}  // namespace fluxformer::derivatives
