#pragma once

// The keys of `evolve`.

#include "base/options.hpp"

namespace fluxformer {

/// Declares the keys of `evolve`: model and data, inflow, start, evolve, front, output, checkpoint and run.
void declare_evolve(Options& options);
/// Declares the keys that EvolveProblem reads, without those of model and data, and without run.seed.
void declare_evolution(Options& options);

}  // namespace fluxformer
