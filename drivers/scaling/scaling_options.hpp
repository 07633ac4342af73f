#pragma once

// The keys of `scaling`: those of `evolve` and `train` plus its own.

#include "base/options.hpp"

namespace fluxformer {

void declare_scaling(Options& options);

}  // namespace fluxformer
