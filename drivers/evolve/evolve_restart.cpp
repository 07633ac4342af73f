#include "drivers/evolve/evolve_restart.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/mpi.hpp"
#include "drivers/common/restart_check.hpp"
#include "drivers/evolve/evolve_record.hpp"
#include "io/axes.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

/// Fields in an archive that belong to the run described by the settings.
struct StoredFields {
  long fields = 0;  ///< number of the wanted fields that are there
  bool interrupted = false;
};

/// Looks for fields in the file; finds none if it cannot be read or belongs to another problem.
StoredFields stored_fields_in(MPI_Comm comm, const std::string& path, const Settings& settings, long wanted) {
  try {
    const io::ArchiveReader file(comm, path);
    if (!continues(settings, file.text(names::settings), path)) return {};
    const auto shape = file.shape(names::root(axes::time));
    return {shape.size() == 1 ? std::min(static_cast<long>(shape[0]), wanted) : 0,
            file.text(names::status) == names::interrupted};
  } catch (const Error&) {
    return {};
  }
}

/// Finds the file with the most fields of the run that is continued. A killed run leaves its part file,
/// readable up to its last checkpoint; a stopped, failed or finished one its output. A run killed before it
/// had copied the fields of its predecessor leaves a part file with fewer fields than the predecessor's. The
/// part file is kept as an interrupted result while this run writes its own.
void find_earlier(MPI_Comm comm, const Settings& settings, Continuation& found) {
  const auto& output = settings.word("output.file");
  const auto part = io::part_path(output), interrupted = io::incomplete_path(output, names::interrupted);
  long most = 0;
  std::string source;
  for (const auto& path : {part, interrupted, output, io::incomplete_path(output, names::failed)}) {
    const auto stored_part = stored_fields_in(comm, path, settings, found.fields);
    if (path == output) found.continues_output = stored_part.interrupted;
    if (stored_part.fields > most) std::tie(most, source) = std::pair(stored_part.fields, path);
  }
  if (source.empty()) return;
  if (source == part) {
    collectively(comm, [&] {
      if (mpi::is_root(comm)) std::filesystem::rename(part, interrupted);
    });
    source = interrupted;
  }
  found.earlier.emplace(comm, source);
}

}  // namespace

std::optional<Continuation> find_continuation(MPI_Comm comm, const Settings& settings) {
  auto checkpoint = find_checkpoint(comm, settings);
  if (!checkpoint) return {};
  const long fields = checkpoint->integer(fields_stored);
  Continuation found{std::move(*checkpoint), {}, fields, false};
  find_earlier(comm, settings, found);
  return found;
}

}  // namespace fluxformer
