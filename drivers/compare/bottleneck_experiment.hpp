#pragma once

// `bottleneck`: mutual information of hidden states with the input and with the label, by depth and over
// training, with several estimators.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_bottleneck(io::Description& description);
void declare_bottleneck(Options& options);
std::unique_ptr<Experiment> make_bottleneck(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
