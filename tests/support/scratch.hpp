#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace fluxformer::test {

/// A path in the folder for temporary files, the same on all ranks of one start of mpiexec on this node (their common parent is in it) and of
/// no other start. Not collective; makes nothing.
inline std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("fluxformer-" + std::to_string(getppid()) + "-" + name);
}

}  // namespace fluxformer::test
