#include "io/hdf5/hdf5_check.hpp"

#include <hdf5.h>

#include <cerrno>
#include <vector>

#include "io/part_file.hpp"

namespace fluxformer::io {

namespace {

herr_t collect(unsigned, const H5E_error2_t* entry, void* out) {
  if (entry->desc != nullptr) static_cast<std::vector<std::string>*>(out)->emplace_back(entry->desc);
  return 0;
}

// "unable to open file: name = 'a.h5', errno = 2, error message = 'No such file or directory', ..." without
// the uninformative parts.
std::string in_short(const std::string& entry) {
  static constexpr std::string_view tag = "error message = '";
  const auto begin = entry.find(tag), end = entry.find('\'', begin + tag.size());
  if (begin == std::string::npos || end == std::string::npos) return entry;
  return entry.substr(0, entry.find(':') + 2) + entry.substr(begin + tag.size(), end - begin - tag.size());
}

}  // namespace

void quiet_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_complaint() {
  std::vector<std::string> entries;  // innermost first
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &entries);
  H5Eclear2(H5E_DEFAULT);
  if (entries.empty()) return "HDF5 gives no reason";
  for (const std::string& entry : entries) {
    if (entry.find("No space left") != std::string::npos ||
        entry.find("MPI_ERR_NO_SPACE") != std::string::npos)
      return write_failure(ENOSPC);
    if (entry.find("File too large") != std::string::npos) return write_failure(EFBIG);
  }
  // MPI-IO's own text is terse ("MPI_ERR_OTHER"); the failing call is more informative.
  return in_short(entries[0]) + (entries.size() > 1 ? " (" + entries[1] + ")" : "");
}

}  // namespace fluxformer::io
