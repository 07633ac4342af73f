#pragma once

// The experiments of the program. To add one, add a line in registry.cpp or, from outside, call
// register_experiment before run_command_line.

#include <vector>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// All experiments, in the order they are listed.
const std::vector<ExperimentEntry>& experiments();

/// Appends an experiment to the list. Throws std::logic_error if the name is taken.
void register_experiment(ExperimentEntry entry);

}  // namespace fluxformer
