#pragma once

// The keys of `evolve`, and what they say.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "analysis/clusters/field_clusters.hpp"
#include "base/options.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "model/initial_state.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

/// Declares the keys of `evolve`: model and data, inflow, start, evolve, front, output, checkpoint and run.
void declare_evolve(Options& options);
/// Declares the keys that plan_of_evolution reads, without those of model and data, and without run.seed.
void declare_evolution(Options& options);

/// The inflow at s = 0.
struct InflowPlan {
  std::string source;              ///< data, noise or none
  DataPlan data;                   ///< for source data
  std::string split;               ///< split of the data
  int samples = 1;                 ///< samples of a block
  std::size_t first = 0;           ///< index of the first sample
  double every = 0;                ///< time between blocks; 0: the first one stays
  int tokens_x = 0, tokens_y = 0;  ///< the tokens asked for; 0: those of the data, or 1
  std::uint64_t seed = 1;
};

/// An equation to be evolved.
struct EvolvePlan {
  ModelPlan model;
  EquationSpec equation;  ///< to be completed by equation_for
  Precision precision = Precision::float64;
  InflowPlan inflow;
  int ranks_depth = 0, ranks_token = 0;  ///< 0: as the mesh divides best
  bool periodic = false;
  InitialState start;     ///< no_zero_vectors is decided by the model
  EvolveSettings solver;  ///< time 0: two crossings of the depth, or 1 without transport
};
/// The plan by the settings. Throws BadInput for a precision that this processor does not have, and for one
/// too coarse for the steady state that fronts are measured against. Not collective.
EvolvePlan plan_of_evolution(const Settings& settings);

/// The output of `evolve`, and the times at which it is written.
struct EvolveOutput {
  std::string file;
  double every = 0;        ///< time between stored states; 0: start and end only
  long history = 1;        ///< steps between lines of the history
  double checkpoints = 0;  ///< time between checkpoints; 0: only when stopped
  double threshold = 0;    ///< of the arrival of the front; 0: none is looked for
  bool fields = true, model = true, attention = false, logits = false;
  int depth_stride = 1, channel_stride = 1, compression = 0;
  /// How clusters of tokens are measured, beta and delta 0: as with_kernel sets them; none: not at all.
  std::optional<clusters::FieldClusterSettings> counts = {};
};
/// The settings with a kernel in place of the zeros: beta the root of the width, as logits are divided by the root of the channels, and
/// delta its width.
clusters::FieldClusterSettings with_kernel(clusters::FieldClusterSettings counts, int width);
/// The output by the settings of `evolve`. Throws BadInput, the same on all ranks. Not collective.
EvolveOutput output_of_evolve(const Settings& settings);

}  // namespace fluxformer
