#pragma once

// The states of models by depth, measured over many samples. All of it is collective over the ranks of the
// samples, and the same on all of them; a probe holds as many samples as a batch.

#include <cstddef>
#include <vector>

#include "analysis/model_probe.hpp"
#include "analysis/state_examples.hpp"
#include "analysis/states/cka.hpp"
#include "analysis/states/state_measures.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::states {

/// The same on all ranks.
struct ModelStates {
  StateMeasures by_row;    ///< at all rows of the probe; norm, token_variance and dirichlet_energy only
  StateMeasures by_layer;  ///< at the embedded input and the end of each layer, from one to the next
  /// [sample][row][token] of the first `examples` samples: root mean square over the channels of each token,
  /// NaN for padding.
  std::vector<double> token_norms;
  double accuracy = 0;  ///< share of samples whose most likely class is the label
  /// Of every sample, [sample][end of a layer]: root mean square of its state, and its drift.
  std::vector<double> norm_by_sample, drift_by_sample;
  std::vector<double> correct_by_sample;  ///< [sample]: 1 where the most likely class is the label, else 0
};

/// Cells of the model end where layers do. Cost: a forward pass.
ModelStates measure_states(const SampleSet& samples, ModelProbe& probe, std::size_t examples);

/// Of every depth of A with every depth of B. Cost: a forward pass of each.
CkaMeter align(const SampleSet& samples, ModelProbe& a, ModelProbe& b, Examples what);

/// Root mean square over the channels of every token of a sample; NaN for padding. Not collective; needs all
/// tokens on this rank.
std::vector<double> token_norms(const SlabContext& context, const double* u, int sample);

}  // namespace fluxformer::states
