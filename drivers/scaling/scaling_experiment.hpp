#pragma once

// `scaling`: times steps of `evolve` or `train` by phase, and measures the machine's peak performance.

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Entries of the registry (ExperimentEntry): what its files hold, and the run. Making it is collective and
/// throws BadInput (agreed).
void describe_scaling(io::Description& description);
std::unique_ptr<Experiment> make_scaling(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
