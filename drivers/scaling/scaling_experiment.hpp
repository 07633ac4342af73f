#pragma once

// `scaling`: times steps of `evolve` or `train`, by phase of the work, and what the machine could do.

#include "drivers/common/experiment.hpp"

namespace fluxformer {

std::unique_ptr<Experiment> make_scaling(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
