#pragma once

// Keys that several experiments declare, each where it stands in its --help.

#include <string>

#include "base/options.hpp"

namespace fluxformer {

/// output.overwrite
Option overwrite_option();
/// run.seed; `doc` says what it is the seed of.
Option seed_option(std::string doc);
/// run.time_limit; `doc` says what happens then.
Option time_limit_option(std::string doc = "wall time after which the run checkpoints and ends; 0: none");
/// checkpoint.restart, as find_checkpoint reads it.
Option restart_option();

}  // namespace fluxformer
