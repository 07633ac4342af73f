#include "drivers/commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.hpp"

namespace fluxformer {
namespace {

// CMake knows both: the Python of configure time, and the way from the folder of the program to the package.
constexpr const char* configured_python = FLUXFORMER_PYTHON;
constexpr const char* package_beside_program = FLUXFORMER_PACKAGE;

std::filesystem::path list_of_commands(const std::filesystem::path& folder) {
  return folder / "fluxformer" / "commands.json";
}

std::vector<Command> read_commands(const std::filesystem::path& list) {
  std::ifstream stream(list);
  try {
    std::vector<Command> commands;
    for (const auto& one : nlohmann::json::parse(stream))
      commands.push_back({one.at("name"), one.at("arguments"), one.at("sentence")});
    return commands;
  } catch (const nlohmann::json::exception& e) {
    throw BadInput(list.string() + ": is damaged, install the Python package again (" + e.what() + ")");
  }
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Removes from the environment what a launcher says of ranks; the settings of its user stay.
void leave_launcher() {
  std::vector<std::string> names;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    for (const char* group : {"OMPI_COMM_WORLD_", "PMIX_", "PMI_", "MPI_LOCAL"})
      if (text.starts_with(group)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const auto& name : names) unsetenv(name.c_str());
}

}  // namespace

PythonPackage find_python_package(const std::filesystem::path& program, std::string_view python_path) {
  std::vector<std::filesystem::path> folders{
      (program.parent_path() / package_beside_program).lexically_normal()};
  const std::string looked = folders.front().string();
  while (!python_path.empty()) {
    const auto folder = python_path.substr(0, python_path.find(':'));
    if (!folder.empty()) folders.emplace_back(folder);
    python_path.remove_prefix(std::min(folder.size() + 1, python_path.size()));
  }
  for (const auto& folder : folders) {
    const auto list = list_of_commands(folder);
    if (std::error_code unreadable; std::filesystem::exists(list, unreadable))
      return {folder, read_commands(list), ""};
  }
  return {
      {},
      {},
      "the Python package, which draws and reports, is neither in " + looked +
          " nor on PYTHONPATH: install it again, or set PYTHONPATH to the folder postprocess of the source"};
}

std::vector<Command> commands_with(const PythonPackage& package) {
  std::vector<Command> all{{"check", "FILE...", "whether HDF5 survives damaged files"}};
  all.insert(all.end(), package.commands.begin(), package.commands.end());
  return all;
}

PythonPackage python_package() {
  std::error_code unknown;  // then there is no path: the package may be on PYTHONPATH
  return find_python_package(std::filesystem::read_symlink("/proc/self/exe", unknown),
                             variable("PYTHONPATH"));
}

void become_python_command(const PythonPackage& package, const std::vector<std::string>& words) {
  const std::string chosen = variable("FLUXFORMER_PYTHON");
  std::string python = chosen.empty() ? configured_python : chosen;
  const std::string others = variable("PYTHONPATH");
  setenv("PYTHONPATH", (package.folder.string() + (others.empty() ? "" : ":" + others)).c_str(), 1);
  setenv("PYTHONSAFEPATH", "1", 1);  // a statistics.py in the user's folder is not Python's
  leave_launcher();
  std::vector<std::string> texts{python, "-m", "fluxformer"};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> arguments(texts.size() + 1);  // the last one is null
  std::ranges::transform(texts, arguments.begin(), [](std::string& text) { return text.data(); });
  ::execvp(python.c_str(), arguments.data());
  throw BadInput(
      words.front() + ": " + python + " cannot be started (" + std::strerror(errno) +
      "); set FLUXFORMER_PYTHON to a Python of version 3.11 or newer with the packages of figures, "
      "/usr/bin/python3 on Debian, or install one");
}

}  // namespace fluxformer
