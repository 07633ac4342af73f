#pragma once

// The files that a run continues from (checkpoint.restart): the checkpoint, and the fields of the run it
// belongs to.

#include <mpi.h>

#include <optional>

#include "base/settings.hpp"
#include "io/archive_reader.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// The run that is continued, opened for reading.
struct Continuation {
  io::CheckpointReader checkpoint;
  /// The output of the run that was stopped or killed (or finished, if this one continues beyond it), if it
  /// can be read; the first `fields` states also belong to this run.
  std::optional<io::ArchiveReader> earlier;
  long fields = 0;
  /// True if the output is that of the stopped run.
  bool continues_output = false;
};

/// Finds what the run continues from: std::nullopt if the settings ask for nothing, or for the newest
/// checkpoint (auto) and there is none. Must be called before the output file is claimed, because it moves
/// the part file of a killed run to <name>.interrupted.h5, which remove_interrupted removes once the output
/// is complete. Collective. Throws BadInput (agreed) if the checkpoint cannot be read, or if a key that
/// affects the solution differs from the checkpoint's.
std::optional<Continuation> find_continuation(MPI_Comm comm, const Settings& settings);

}  // namespace fluxformer
