#pragma once

// `spectrum_of_states`: how many directions the hidden states of a sample's tokens span, by depth.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// The three entries of the registry (ExperimentEntry): what its files hold, its keys, and the run. Making it
/// is collective and throws BadInput (agreed).
void describe_spectrum_of_states(io::Description& description);
void declare_spectrum_of_states(Options& options);
std::unique_ptr<Experiment> make_spectrum_of_states(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
