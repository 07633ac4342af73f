#pragma once

// A coordinate 0, 1, ... for files that tests write.

#include <numeric>
#include <string>
#include <vector>

#include "io/archive_writer.hpp"

namespace fluxformer::test {

/// Defines the coordinate 0, 1, ..., size - 1.
inline void index_axis(io::ArchiveWriter& archive, const std::string& name, Index size,
                       const std::string& long_name) {
  std::vector<double> values(size);
  std::iota(values.begin(), values.end(), 0.0);
  archive.axis(io::index(name, long_name), values);
}

}  // namespace fluxformer::test
