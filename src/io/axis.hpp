#pragma once

// Metadata of the numbers in an archive: axes, meaning, and views for the side-car file.

#include <cstddef>
#include <string>
#include <vector>

#include "io/variable.hpp"

namespace fluxformer::io {

/// A coordinate at the root of the file; dimensions of datasets refer to it by name.
struct Axis {
  std::string name;
  std::vector<double> values;  ///< ignored if `growing`; values are appended instead
  std::string unit = {};       ///< "" for a pure number
  std::string long_name = {};
  bool growing = false;
  bool whole_numbers = false;  ///< stored as 64-bit integers
};

/// What the numbers of a dataset mean.
struct Meaning {
  std::string unit = {};  ///< "" for a pure number
  std::string long_name = {};
  bool whole_numbers = false;  ///< an array stored as 64-bit integers
};

/// What a variable says of its numbers, without its name and axes.
inline Meaning meaning_of(const Variable& variable) {
  return {variable.unit, variable.long_name, variable.whole_numbers};
}

/// A small array known to all ranks, row-major, at an absolute path. Dimensions without a named axis ("" or a
/// shorter list) get an anonymous one.
struct SmallArray {
  std::string path;
  std::vector<std::size_t> shape;
  const double* data;  ///< borrowed; rank 0's is written
  Meaning meaning = {};
  std::vector<std::string> axes = {};
  bool with_digest = false;  ///< damage is found by whoever reads it
};

/// What the XDMF side-car shows: channels (positions along the file's channel axis) of one sample of a field.
struct XdmfChoice {
  std::string field;
  std::size_t sample = 0;
  std::vector<std::size_t> channels;
};

}  // namespace fluxformer::io
