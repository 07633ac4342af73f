#pragma once

// The keys of `evolve`.

#include "base/options.hpp"

namespace fluxformer {

void declare_evolve(Options& options);
/// Those of them that EvolveProblem reads, but for those of model and data, and run.seed.
void declare_evolution(Options& options);

}  // namespace fluxformer
