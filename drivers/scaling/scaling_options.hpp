#pragma once

// The keys of `scaling`: those of `evolve` and `train` plus its own.

#include "base/options.hpp"

namespace fluxformer {

/// The keys of evolve.* and train.* count only for the scaling.workload they belong to.
void declare_scaling(Options& options);

}  // namespace fluxformer
