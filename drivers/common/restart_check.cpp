#include "drivers/common/restart_check.hpp"

#include <filesystem>
#include <iostream>
#include <system_error>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"

namespace fluxformer {
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
