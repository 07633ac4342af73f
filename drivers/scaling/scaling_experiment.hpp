#pragma once

// `scaling`: times steps of `evolve` or `train` by phase, and measures the machine's peak performance.

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `scaling`: those of `evolve` and `train`, which count only for the scaling.workload they belong to, plus its own.
void declare_scaling(Options& options);

/// Entries of the registry (ExperimentEntry): what its files hold, and the run. Making it is collective and
/// throws BadInput (agreed).
void describe_scaling(io::Description& description);
std::unique_ptr<Experiment> make_scaling(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
