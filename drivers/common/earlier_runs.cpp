#include "drivers/common/earlier_runs.hpp"

#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/archive_reader.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "io/output_file.hpp"

namespace fluxformer {
namespace {

/// Value of checkpoint.restart; "" for experiments that cannot be continued.
std::string restart_word(const Settings& settings) {
  return settings.options()->find("checkpoint.restart") == nullptr ? "" : settings.word("checkpoint.restart");
}

bool exists(const std::string& path) {
  std::error_code cannot_be_looked_at;  // claiming the file reports it
  return std::filesystem::exists(path, cannot_be_looked_at);
}

bool same_file(const std::string& one, const std::string& other) {
  std::error_code not_there;
  return std::filesystem::equivalent(one, other, not_there);
}

/// True if the checkpoints beside the output belong to this run. Rank-local: the name of a file may depend on
/// the rank's folder.
bool continues_its_own(const Settings& settings) {
  const auto from = restart_word(settings);
  const auto& output = settings.word("output.file");
  return from == "auto" || same_file(from, io::checkpoint_path(output)) ||
         same_file(from, io::previous_checkpoint_path(output));
}

/// Refuses to start where the checkpoint of an unfinished run would be replaced. Runs that can be continued
/// write one at the latest when they are stopped.
void protect_checkpoint(MPI_Comm comm, const Settings& settings) {
  const auto& output = settings.word("output.file");
  for (const auto& path : {io::checkpoint_path(output), io::previous_checkpoint_path(output)}) {
    const auto checkpoint_written = io::time_written(comm, path);
    if (!checkpoint_written) continue;
    for (const auto& result : {output, io::incomplete_path(output, names::failed)}) {
      const auto ended = io::earlier_result(comm, result);
      // The run of the checkpoint has finished if a result is no older than the checkpoint.
      if ((ended.status == names::done || ended.status == names::failed) &&
          ended.written >= checkpoint_written)
        return;
    }
    throw BadInput(
        "checkpoint.restart = " + restart_word(settings) + ": " + path +
        " is of a run that has not finished; continue it with --checkpoint.restart=auto, or remove "
        "that file");
  }
}

}  // namespace

std::unique_ptr<io::PartFile> claim_output(MPI_Comm comm, const Settings& settings,
                                           const OutputClaim& claim) {
  const auto& output = settings.word("output.file");
  int own = continues_its_own(settings) ? 1 : 0;
  check_mpi(MPI_Bcast(&own, 1, MPI_INT, 0, comm));
  if (own == 0 && !restart_word(settings).empty()) protect_checkpoint(comm, settings);

  const bool overwrite = settings.flag("output.overwrite");
  collectively(comm, [&] {
    if (overwrite || own != 0 || !mpi::is_root(comm) || exists(output)) return;
    for (const auto& path : claim.side_files)
      if (exists(path))
        throw BadInput("output.file: " + path +
                       ", which this run would write, exists; choose another name or allow output.overwrite");
  });
  auto part = std::make_unique<io::PartFile>(comm, output, overwrite || claim.continues_output);
  part->reserve(0, io::room_for(claim.bytes, claim.datasets));
  return part;
}

void remove_interrupted(MPI_Comm comm, const Settings& settings) {
  collectively(comm, [&] {
    if (!mpi::is_root(comm)) return;
    const auto interrupted = io::incomplete_path(settings.word("output.file"), names::interrupted);
    for (const auto& path : {interrupted, io::side_car_path(interrupted)}) std::filesystem::remove(path);
  });
}

namespace {

std::optional<io::CheckpointReader> open_checkpoint(MPI_Comm comm, const Settings& settings) {
  const auto& from = settings.word("checkpoint.restart");
  if (from == "no") return {};
  if (from != "auto") {
    const bool there = collectively(comm, [&] {
      std::error_code ignored;
      return std::filesystem::exists(from, ignored);
    });
    if (!there)
      throw BadInput("checkpoint.restart = " + from +
                     ": no such file; use no, auto or the name of a checkpoint");
    return io::CheckpointReader(comm, from);
  }
  const auto& output = settings.word("output.file");
  const bool there = collectively(comm, [&] {
    return std::filesystem::exists(io::checkpoint_path(output)) ||
           std::filesystem::exists(io::previous_checkpoint_path(output));
  });
  if (!there) return {};
  return io::CheckpointReader::newest(comm, output);
}

/// Differences from the resolved settings of another run, as Settings::difference gives them.
std::string difference(const Settings& settings, const std::string& resolved, const std::string& source) {
  return settings.difference(Settings(settings.options(), resolved, {}, source, Origin::stored));
}

}  // namespace

std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings) {
  auto checkpoint = open_checkpoint(comm, settings);
  if (!checkpoint) return {};
  if (!checkpoint->newer_failed().empty() && mpi::is_root(comm))
    std::cerr << "fluxformer: the checkpoint before it is used: " << checkpoint->newer_failed() << '\n';
  const auto other = difference(settings, checkpoint->text("settings"), "the " + checkpoint->called());
  if (!other.empty()) throw BadInput(other);
  return checkpoint;
}

bool continues(const Settings& settings, const std::string& resolved, const std::string& file) {
  return difference(settings, resolved, file).empty();
}

}  // namespace fluxformer
