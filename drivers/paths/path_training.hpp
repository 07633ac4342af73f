#pragma once

// `paths_train`: the network of attention paths for one-shot examples, all of its weights trained.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the keys, the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void declare_paths_train(Options& options);
void describe_paths_train(io::Description& description);
std::unique_ptr<Experiment> make_paths_train(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
