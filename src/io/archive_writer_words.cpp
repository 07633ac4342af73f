// Lists of words in an archive.

#include <algorithm>
#include <stdexcept>

#include "io/archive_writer.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

void ArchiveWriter::words(const std::string& path, const std::vector<std::string>& words,
                          const std::string& long_name, const std::string& axis) {
  std::size_t longest = 1;  // HDF5 knows no type of length 0
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos)
      throw std::logic_error("archive: a word of " + path + " holds a zero byte");
    longest = std::max(longest, word.size());
  }
  const auto axes = named_axes(path, {words.size()}, {axis});
  file_.change(path, words.size() * longest, [&] {
    const TypeHandle type = utf8_type(longest);
    const DatasetHandle dataset = create_dataset(file_.id(), path, type, {.dims = {words.size()}});
    attach(dataset, axes);
    write_attribute(dataset, names::long_name, long_name);
    if (!root() || words.empty()) return;
    std::string padded;
    for (const std::string& word : words) (padded += word).append(longest - word.size(), '\0');
    write_contiguous(dataset, type, padded.data());
  });
}

}  // namespace fluxformer::io
