// Lists of words in an archive.

#include "io/archive_reader.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/finished_file.hpp"

namespace fluxformer::io {

std::vector<std::string> ArchiveReader::words(const std::string& dataset) const {
  return from_terminated(from_file([&] { return read_words(small_, dataset); }));
}

}  // namespace fluxformer::io
