#pragma once

// Named arrays of numbers and words in a file, HDF5 or numpy's .npz.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fluxformer::data {

/// What an array holds. Other kinds (flags, complex numbers, structures, objects, references) are not read.
enum class ItemKind { whole, real, text, other };

/// What an array announces.
struct ArrayInfo {
  ItemKind kind = ItemKind::other;
  std::string type;      ///< in words, for messages
  std::size_t item = 0;  ///< bytes of one of them
  std::vector<std::size_t> shape;
};

/// Names are those of numpy, "ids" or "train/ids". Not collective. Throws BadInput without the name of the file (that of a
/// zip archive excepted); the numbers an array announces are never more than the file can hold.
class ArrayFile {
 public:
  virtual ~ArrayFile() = default;
  /// An array as messages name it.
  virtual std::string called(const std::string& name) const = 0;
  /// Whether there is an array of this name; whether there are arrays whose names begin with "group/".
  virtual bool has(const std::string& name) const = 0;
  virtual bool has_group(const std::string& group) const = 0;
  virtual ArrayInfo info(const std::string& name) const = 0;
  /// Row-major. A whole number that is no int becomes the nearest one.
  virtual std::vector<int> whole_numbers(const std::string& name) const = 0;
  virtual std::vector<float> singles(const std::string& name) const = 0;
  virtual std::vector<double> doubles(const std::string& name) const = 0;
  /// Texts of a one-dimensional array.
  virtual std::vector<std::string> words(const std::string& name) const = 0;
  /// An attribute of an array; none without it, and in formats without attributes.
  virtual std::optional<long> attribute(const std::string& array, const std::string& name) const = 0;
};

/// Opens FILE.npz as numpy's archive and every other file as HDF5.
std::unique_ptr<ArrayFile> open_array_file(const std::string& path);

}  // namespace fluxformer::data
