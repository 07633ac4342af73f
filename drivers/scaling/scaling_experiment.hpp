#pragma once

// `scaling`: times steps of `evolve` or `train` by phase, and measures the machine's peak performance.

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `scaling`: those of `evolve` and `train`, which count only for the scaling.workload
/// they belong to, and those of `scaling` alone.
void declare_scaling(Options& options);

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_scaling(io::Description& description);
std::unique_ptr<Experiment> make_scaling(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
