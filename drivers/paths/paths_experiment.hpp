#pragma once

// `paths`: the statistical mechanics of attention paths.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Entries of the registry (ExperimentEntry): what its files hold, and the run. Making it
/// is collective and throws BadInput (agreed).
void describe_paths(io::Description& description);
std::unique_ptr<Experiment> make_paths(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
