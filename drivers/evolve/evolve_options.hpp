#pragma once

// The keys of `evolve`.

#include "base/options.hpp"

namespace fluxformer {

/// Those of model and data, and of inflow, start, evolve, front, output, checkpoint and run.
void declare_evolve(Options& options);
/// The subset that EvolveProblem reads, without those of model and data, and run.seed.
void declare_evolution(Options& options);

}  // namespace fluxformer
