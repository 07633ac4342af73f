#pragma once

// Options that several experiments declare, each at its place in their --help.

#include <string>

#include "base/option.hpp"

namespace fluxformer {

/// output.file; `fallback`: its default.
Option output_option(std::string fallback, std::string doc = "HDF5 file to write at the end");
/// output.overwrite
Option overwrite_option();
/// run.precision
Option precision_option();
/// run.seed; `doc` says what it is the seed of.
Option seed_option(std::string doc);
/// run.time_limit; `doc` says what happens then.
Option time_limit_option(std::string doc = "wall time after which the run checkpoints and ends; 0: none");
/// checkpoint.restart, as find_checkpoint reads it.
Option restart_option();

}  // namespace fluxformer
