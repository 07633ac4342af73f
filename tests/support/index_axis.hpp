#pragma once

// A coordinate 0, 1, ... for files that tests write.

#include <numeric>
#include <string>
#include <utility>

#include "io/archive_writer.hpp"

namespace fluxformer::test {

inline io::Axis index_axis(std::string name, std::size_t size, std::string long_name) {
  io::Axis axis{.name = std::move(name),
                .values = std::vector<double>(size),
                .long_name = std::move(long_name),
                .whole_numbers = true};
  std::iota(axis.values.begin(), axis.values.end(), 0.0);
  return axis;
}

}  // namespace fluxformer::test
