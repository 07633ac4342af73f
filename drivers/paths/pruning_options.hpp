#pragma once

// The keys pruning.*.

#include "base/options.hpp"

namespace fluxformer {

/// Models, samples and how heads are judged.
void declare_pruning(Options& options);

}  // namespace fluxformer
