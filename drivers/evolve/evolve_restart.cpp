#include "drivers/evolve/evolve_restart.hpp"

#include <algorithm>
#include <filesystem>

#include "base/rank_of.hpp"
#include "drivers/common/restart_check.hpp"
#include "drivers/evolve/evolve_record.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

/// Where the part file of a killed run is kept while the next run writes its own.
std::string kept_part(const std::string& output) {
  return output + ".interrupted";
}

/// What an archive contains of the run described by the settings.
struct Remains {
  long fields = 0;  ///< of those wanted
  bool interrupted = false;
};

/// None if the file cannot be read or belongs to another problem.
Remains remains_in(MPI_Comm comm, const std::string& path, const Settings& settings, long wanted) {
  try {
    const io::ArchiveReader file(comm, path);
    if (!continues(settings, file.text(names::settings), path)) return {};
    const auto stored = file.shape(names::root(axes::time));
    return {stored.size() == 1 ? std::min(static_cast<long>(stored[0]), wanted) : 0,
            file.text(names::status) == names::interrupted};
  } catch (const Error&) {
    return {};
  }
}

/// A killed run leaves its part file, readable up to its last checkpoint; a stopped or finished one its
/// output. A run killed before it had copied the fields of its predecessor leaves a part file with fewer
/// fields than the predecessor's.
void find_earlier(MPI_Comm comm, const Settings& settings, Continuation& found) {
  const auto& output = settings.word("output.file");
  const auto part = output + ".part", kept = kept_part(output);
  const auto remains = [&](const std::string& path) {
    return remains_in(comm, path, settings, found.fields);
  };
  const auto in_part = remains(part), in_kept = remains(kept), in_output = remains(output);
  found.replaces_output = in_output.interrupted;
  const auto most = std::max({in_part.fields, in_kept.fields, in_output.fields});
  if (most == 0) return;
  if (in_part.fields == most)
    collectively(comm, [&] {
      if (RankOf(comm).root()) std::filesystem::rename(part, kept);
    });
  found.earlier.emplace(comm, std::max(in_part.fields, in_kept.fields) == most ? kept : output);
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

void remove_interrupted(MPI_Comm comm, const Settings& settings) {
  collectively(comm, [&] {
    if (RankOf(comm).root()) std::filesystem::remove(kept_part(settings.word("output.file")));
  });
}

}  // namespace fluxformer
