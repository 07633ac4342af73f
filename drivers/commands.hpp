#pragma once

// Words that stand where an experiment could: `check`, and the commands of the Python package, which the program
// passes on. `fluxformer plot out/evolve.h5` is `python3 -m fluxformer plot out/evolve.h5`. The package lists
// its commands itself, in fluxformer/commands.json.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fluxformer {

/// How it is called, `fluxformer NAME ARGUMENTS`, and what it does.
struct Command {
  std::string name, arguments, sentence;
};

/// The Python package as this program finds it.
struct PythonPackage {
  std::filesystem::path folder;   ///< holds `fluxformer/`; empty if there is none
  std::vector<Command> commands;  ///< in the order of the package
  std::string missing;            ///< where it was looked for and what to do; empty if it was found
};

/// The package of the tree that `program` stands in, an installed one or a build folder, else the first in the
/// folders of `python_path` (separated by colons). Throws BadInput for a list of commands that is damaged.
PythonPackage find_python_package(const std::filesystem::path& program, std::string_view python_path);

/// The commands that there are: `check`, and those of the package.
std::vector<Command> commands_with(const PythonPackage& package);

/// The package of the running program and of PYTHONPATH. Not collective, and needs no MPI.
PythonPackage python_package();

/// Turns this process into the command: words[0] is its name, exit code and signals are the command's. The
/// Python is FLUXFORMER_PYTHON of the environment, else that of configure time. It is no rank of a launcher:
/// h5py would wait for the others. Returns never; throws BadInput if there is no such Python.
[[noreturn]] void become_python_command(const PythonPackage& package, const std::vector<std::string>& words);

}  // namespace fluxformer
