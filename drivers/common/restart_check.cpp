#include "drivers/common/restart_check.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/error.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"

namespace fluxformer {

std::optional<io::CheckpointReader> find_checkpoint(MPI_Comm comm, const Settings& settings) {
  const auto& from = settings.word("checkpoint.restart");
  if (from == "no") return {};
  if (from != "auto") return io::CheckpointReader(comm, from);
  const auto& output = settings.word("output.file");
  const bool there = collectively(comm, [&] {
    return std::filesystem::exists(io::checkpoint_path(output)) ||
           std::filesystem::exists(io::previous_checkpoint_path(output));
  });
  if (!there) return {};
  return io::CheckpointReader::newest(comm, output);
}

std::string value_text(const Settings& settings, const Option& option) {
  std::ostringstream out;
  out.precision(17);
  if (std::holds_alternative<bool>(option.fallback)) out << (settings.flag(option.name) ? "true" : "false");
  if (std::holds_alternative<long>(option.fallback)) out << settings.integer(option.name);
  if (std::holds_alternative<double>(option.fallback)) out << settings.real(option.name);
  if (std::holds_alternative<std::string>(option.fallback)) out << settings.word(option.name);
  return out.str();
}

std::vector<std::string> given_keys(const Schema& schema, const Settings& settings) {
  std::vector<std::string> keys;
  for (const auto& option : schema.options())
    if (settings.given(option.name)) keys.push_back(option.name + "=" + value_text(settings, option));
  return keys;
}

std::string difference(const Schema& schema, const Settings& now, const std::string& resolved,
                       const std::string& file, const std::vector<std::string>& free) {
  const Settings then(schema, resolved, {}, file);
  for (const auto& option : schema.options()) {
    const auto& name = option.name;
    if (std::any_of(free.begin(), free.end(), [&](const auto& begin) { return name.starts_with(begin); }))
      continue;
    if (value_text(now, option) != value_text(then, option))
      return name + " = " + value_text(now, option) + ": the checkpoint " + file + " was made with " +
             value_text(then, option);
  }
  if (now.petsc() != then.petsc()) return "[petsc]: the checkpoint " + file + " was made with other options";
  return {};
}

}  // namespace fluxformer
