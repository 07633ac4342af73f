#pragma once

// The start of a run as its files see it: nothing that another run has left is replaced unless that was
// allowed.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// What a run is going to write, beyond what its settings say.
struct OutputClaim {
  /// The output is that of the stopped run which is continued.
  bool continues_output = false;
  /// Files beside the output, without checkpoints.
  std::vector<std::string> side_files = {};
  /// What the output takes at least, as far as it is known: bytes of data, and datasets beyond a few.
  std::uint64_t bytes = 0;
  std::size_t datasets = 0;
};

/// Claims output.file. An existing output or side file may be replaced with output.overwrite, and by a run
/// that continues (checkpoint.restart = auto, or its own checkpoint): an output only if it is that of the
/// stopped run. The checkpoint of a run that has not finished is replaced only by a run that continues.
/// Collective; throws BadInput (agreed) where this forbids the start, and as PartFile; Error if disk or limit
/// cannot hold the output.
std::unique_ptr<io::PartFile> claim_output(MPI_Comm comm, const Settings& settings, const OutputClaim& claim);

/// Removes <name>.interrupted.h5 and its side-car, once the run that continued them is complete. Collective.
void remove_interrupted(MPI_Comm comm, const Settings& settings);

}  // namespace fluxformer
