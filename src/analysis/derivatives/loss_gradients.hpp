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
};

/// The same on all ranks. The probe holds as many samples as a batch of `samples`, and its cells end where
/// layers do. Cost: a forward and a backward pass. Collective over the ranks of the samples.
LossGradients loss_gradients(const SampleSet& samples, ModelProbe& probe);

}  // namespace fluxformer::derivatives
