#pragma once

// `spectrum_of_states`: how many directions the hidden states of a sample's tokens span, by depth.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_spectrum_of_states(io::Description& description);
void declare_spectrum_of_states(Options& options);
std::unique_ptr<Experiment> make_spectrum_of_states(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
