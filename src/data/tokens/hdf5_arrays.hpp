#pragma once

// Named arrays of numbers and words in an HDF5 file, whoever wrote it.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace fluxformer::data {

/// What an array holds. Other kinds (flags, complex numbers, structures, objects, references) are not read.
enum class ItemKind { whole, real, text, other };

/// The kind and shape that an array announces.
struct ArrayInfo {
  ItemKind kind = ItemKind::other;
  std::string type;      ///< the kind in words, for messages
  std::size_t item = 0;  ///< bytes of one item
  std::vector<std::size_t> shape;
};

/// The arrays of one HDF5 file. Names have no leading slash: "ids" or "train/ids". Links and datasets that lead to other files are
/// refused. Not collective. Throws BadInput without the name of the file; an array never announces more numbers than the file can hold.
class Hdf5Arrays {
 public:
  /// Throws BadInput for what is no whole HDF5 file.
  explicit Hdf5Arrays(const std::string& path);
  /// The name of an array in messages.
  std::string called(const std::string& name) const { return "/" + name; }
  /// True if the file has an array of this name.
  bool has(const std::string& name) const;
  /// True if the file has a group of this name.
  bool has_group(const std::string& group) const;
  ArrayInfo info(const std::string& name) const;
  /// The numbers of an array, row-major. A whole number that is no int becomes the nearest one.
  std::vector<int> whole_numbers(const std::string& name) const;
  std::vector<float> singles(const std::string& name) const;
  std::vector<double> doubles(const std::string& name) const;
  /// The texts of a one-dimensional array.
  std::vector<std::string> words(const std::string& name) const;
  /// An attribute of an array; none if it is not there. Throws BadInput if it is not a whole number.
  std::optional<long> attribute(const std::string& array, const std::string& name) const;

 private:
  template <class T>
  std::vector<T> read(const std::string& name, hid_t type) const;
  io::FileHandle file_;
};

}  // namespace fluxformer::data
