#pragma once

// The checkpoint to continue from.

#include <mpi.h>

#include <optional>
#include <string>

#include "base/settings.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// The checkpoint that checkpoint.restart asks for: none, the one named, or (auto) the newest beside
/// output.file if there is one. Collective; throws BadInput (agreed) if it cannot be read, or was made with
/// settings that differ in what a continued run may not change.
std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings);

/// Whether a run with these settings may continue the one whose resolved settings stand in `file`. Not
/// collective; throws BadInput for resolved settings that cannot be read.
bool continues(const Settings& settings, const std::string& resolved, const std::string& file);

}  // namespace fluxformer
