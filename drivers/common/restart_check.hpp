#pragma once

// The checkpoint that a run continues from.

#include <mpi.h>

#include <optional>
#include <string>

#include "base/settings.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// Opens the checkpoint selected by checkpoint.restart: none, the named one, or (auto) the newest for
/// output.file, if any. Collective; throws BadInput (agreed) if it cannot be read, or if its settings differ
/// in keys that a continued run may not change.
std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings);

/// True if a run with these settings may continue the one whose resolved settings are stored in `file`. Not
/// collective; throws BadInput for resolved settings that cannot be read.
bool continues(const Settings& settings, const std::string& resolved, const std::string& file);

}  // namespace fluxformer
