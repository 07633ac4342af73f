#pragma once

// The checkpoint to continue from, and whether it belongs to the settings at hand.

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// The checkpoint that checkpoint.restart asks for: none, the one named, or (auto) the newest beside
/// output.file if there is one. Collective; throws BadInput (agreed) if it cannot be read.
std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings);

/// The value of a key in full precision.
std::string value_text(const Settings& settings, const Option& option);

/// The keys that deck or command line gave, as section.key=value.
std::vector<std::string> given_keys(const Schema& schema, const Settings& settings);

/// How a key that shapes the solution differs between `now` and the resolved settings in `file`, as a
/// message; empty if none does. Keys that begin with one of `free` may differ.
std::string difference(const Schema& schema, const Settings& now, const std::string& resolved,
                       const std::string& file, const std::vector<std::string>& free);

}  // namespace fluxformer
