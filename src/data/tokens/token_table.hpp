#pragma once

// The contents of a token file: samples of an equal number of tokens, which are words or features.
//
//   ids       (samples, tokens)          whole numbers 0..V-1, or
//   features  (samples, tokens, inputs)  real numbers
//   lengths   (samples)                  real tokens, 1..tokens; without it all are real
//   segments  (samples, tokens)          whole numbers from 0; only with ids
//   labels    (samples)                  whole numbers from 0; without it all are 0
//   words     (V)                        texts in UTF-8; without it V is the attribute `vocabulary` of ids, or the largest
//                                        id and one
// at the root for both splits, or in the groups train and test; words may be at the root then, too.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace fluxformer::data {

/// Whether these bytes are a text in UTF-8 (RFC 3629).
bool is_utf8(std::string_view text);

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

/// One split. Arrays are row-major; empty where the file has none.
struct TokenTable {
  std::size_t samples = 0;
  int tokens = 0;
  int inputs = 0;  ///< numbers per token of `features`; 0: tokens are words
  std::vector<int> ids, segments, lengths, labels;
  std::variant<std::vector<float>, std::vector<double>> features;  ///< as precise as the file has them
  std::vector<std::string> words;
  std::string ids_called;  ///< how messages name the ids

  // The same for both splits.
  int vocabulary = 0;     ///< V; 0: tokens are features
  int segment_count = 0;  ///< the largest segment and one; 0: none
  int classes = 1;        ///< the largest label and one
};

/// Reads a split ("train" or "test") of an HDF5 file on this rank. Throws BadInput "data.file = PATH: ..." that names the array for
/// everything that is not as above, and names the command that converts FILE.npz.
TokenTable read_token_table(const std::string& path, const std::string& split);

/// Throws BadInput unless all `values` of an array of this shape are from `least` to `most`; `called` is the array.
void require_range(const std::string& called, const std::vector<int>& values,
                   const std::vector<std::size_t>& shape, int least, int most);

}  // namespace fluxformer::data
