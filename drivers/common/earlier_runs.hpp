#pragma once

// The files that earlier runs have left. The claim on output files at the start of a run: nothing is replaced
// unless the settings allow it. The checkpoint that a run continues from.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "io/checkpoint.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// Files and sizes that a run is going to write, beyond what its settings say.
struct OutputClaim {
  /// True if the output is that of the stopped run which is continued.
  bool continues_output = false;
  /// Files beside the output, without checkpoints.
  std::vector<std::string> side_files = {};
  /// Least size of the output, as far as it is known: bytes of data, and datasets beyond a few.
  std::uint64_t bytes = 0;
  std::size_t datasets = 0;
};

/// Claims output.file. With output.overwrite, an existing output or side file may be replaced. A run that
/// continues (checkpoint.restart = auto, or its own checkpoint) may replace an output only if it is that of
/// the stopped run. The checkpoint of an unfinished run is replaced only by a run that continues it.
/// Collective. Throws BadInput (agreed) where a rule forbids the start, what PartFile throws, and Error if
/// disk or limit cannot hold the output.
std::unique_ptr<io::PartFile> claim_output(MPI_Comm comm, const Settings& settings, const OutputClaim& claim);

/// Removes <name>.interrupted.h5 and its side-car, once the run that continued them is complete. Collective.
void remove_interrupted(MPI_Comm comm, const Settings& settings);

/// Opens the checkpoint selected by checkpoint.restart: none, the named one, or (auto) the newest for
/// output.file, if any. Collective; throws BadInput (agreed) if it cannot be read, or if its settings differ
/// in keys that a continued run may not change.
std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings);

/// True if a run with these settings may continue the one whose resolved settings are stored in `file`. Not
/// collective; throws BadInput for resolved settings that cannot be read.
bool continues(const Settings& settings, const std::string& resolved, const std::string& file);

}  // namespace fluxformer
