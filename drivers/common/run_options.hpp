#pragma once

// Options that several experiments declare, each at its own position in --help.

#include <string>

#include "base/option.hpp"

namespace fluxformer {

/// The key output.file; `fallback`: its default.
Option output_option(std::string fallback, std::string doc = "HDF5 file to write at the end");
/// The key output.overwrite.
Option overwrite_option();
/// The key run.trust_files.
inline constexpr const char* trust_files_key = "run.trust_files";
Option trust_files_option();
/// The key run.precision.
Option precision_option();
/// The key run.seed; `doc`: what it seeds.
Option seed_option(std::string doc);
/// The key run.memory.
Option memory_option();
/// The key run.time_limit; `doc`: what happens at the limit.
Option time_limit_option(std::string doc = "wall time after which the run checkpoints and ends; 0: none");
/// The key checkpoint.every of a study.
Option points_option();
/// The key checkpoint.restart, which find_checkpoint reads.
Option restart_option();

}  // namespace fluxformer
