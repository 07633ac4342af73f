#pragma once

// The gradient of the mean cross entropy of some samples: with respect to their states at every depth, and to
// the parameters.

#include <vector>

#include "analysis/derivatives/gradient_measures.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::derivatives {

/// Gradients by depth and by parameter.
struct LossGradients {
  double loss = 0;                 ///< mean over the samples
  GradientMeasures by_row;         ///< at all rows of the probe
  GradientMeasures by_layer;       ///< at the embedded input and the end of each layer
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
