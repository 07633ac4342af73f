#pragma once

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Rank 0 says on standard error what is about to run, unless it is to be quiet, and what slows this machine
/// down in any case. Whether this rank is one that shows progress.
bool announce(const Experiment& experiment, const RunContext& context);

}  // namespace fluxformer
