#pragma once

// fluxformer evolve: equation (1) in time, from a deck to one HDF5 file.

#include <memory>

#include "drivers/common/experiment.hpp"
#include "drivers/evolve/evolve_problem.hpp"

namespace fluxformer {

/// Makes `evolve` with additional terms in the equation. An experiment that uses this is an entry like that
/// of `evolve` (evolve_experiment), which declares the keys of the terms in addition. Collective; throws
/// BadInput (agreed).
std::unique_ptr<Experiment> make_evolve_with(const std::vector<MakeTerm>& more_terms,
                                             const Settings& settings, const RunContext& context);

}  // namespace fluxformer
