#pragma once

// The head of an array in numpy's format .npy, versions 1 to 3.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace fluxformer::data {

/// What numbers or texts follow, in which shape: row-major, the last index runs fastest.
struct NpyHeader {
  std::string type;         ///< as numpy writes it: "<i8"
  char kind = 0;            ///< i and u: whole numbers, f: reals, U and S: texts; others are not read
  std::size_t item = 0;     ///< bytes of one of them
  bool big_endian = false;  ///< the other byte order than this machine's
  std::vector<std::size_t> shape;

  /// Bytes that follow; throws BadInput if that is more than any file can hold.
  std::size_t bytes() const;
};

/// Reads the head; `read(out, count)` gives the next bytes, fewer only at the end. Throws BadInput (without the name of the
/// array) for what is no such head, Python objects, structures and arrays in Fortran order. Not collective.
NpyHeader read_npy_header(const std::function<std::size_t(char*, std::size_t)>& read);

}  // namespace fluxformer::data
