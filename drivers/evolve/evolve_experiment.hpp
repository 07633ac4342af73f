#pragma once

// fluxformer evolve: equation (1) in time, from a deck to one HDF5 file.

#include <memory>

#include "drivers/common/experiment.hpp"
#include "drivers/evolve/evolve_problem.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_evolve(io::Description& description);
std::unique_ptr<Experiment> make_evolve(const Settings& settings, const RunContext& context);
/// Makes `evolve` with additional terms in the equation. An experiment that uses this declares their keys in
/// addition to those of declare_evolve; describe_evolve describes its files.
std::unique_ptr<Experiment> make_evolve_with(const std::vector<MakeTerm>& more_terms,
                                             const Settings& settings, const RunContext& context);

}  // namespace fluxformer
