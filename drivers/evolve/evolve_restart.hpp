#pragma once

// What a run goes on from (checkpoint.restart): the checkpoint, and the fields of the run it belongs to.

#include <mpi.h>

#include <optional>

#include "base/settings.hpp"
#include "io/archive_reader.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

struct Continuation {
  io::CheckpointReader checkpoint;
  /// The output of the run that was stopped or killed (or finished, where this one goes further), if it can
  /// be read: its first `fields` states are those of this run too.
  std::optional<io::ArchiveReader> earlier;
  long fields = 0;
  /// The output is that of a stopped run: it may be overwritten.
  bool replaces_output = false;
};

/// None if the settings ask for none, or for the newest (auto) and there is none. Call it before the output
/// file is opened: the part of a killed run is moved out of its way. Collective. Throws BadInput (agreed) if
/// the checkpoint cannot be read, or a key that shapes the solution differs from the checkpoint's.
std::optional<Continuation> find_continuation(MPI_Comm comm, const Settings& settings);

/// Removes what `find_continuation` moved, once the output is complete. Collective.
void remove_interrupted(MPI_Comm comm, const Settings& settings);

}  // namespace fluxformer
