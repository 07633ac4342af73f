#pragma once

// The contents of a token file: samples of an equal number of tokens, which are words or features.
//
//   ids       (samples, tokens)          whole numbers 0..V-1, or
//   features  (samples, tokens, inputs)  real numbers
//   lengths   (samples)                  real tokens, 1..tokens; without it all are real
//   segments  (samples, tokens)          whole numbers from 0; only with ids
//   labels    (samples)                  whole numbers from 0; without it all are 0
//   words     (V)                        texts in UTF-8; without it V is the attribute `vocabulary` of
//                                        ids, or the largest id and one
// at the root for both splits, or in the groups train and test; words may be at the root then, too.

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace fluxformer::data {

/// The samples of one split. Arrays are row-major; empty where the file has none.
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

/// Reads a split ("train" or "test") of an HDF5 file on this rank. Throws BadInput "data.file = PATH: ..."
/// that names the array for everything that is not as above, and names the command that converts FILE.npz.
TokenTable read_token_table(const std::string& path, const std::string& split);

/// Throws BadInput unless all `values` of an array of this shape are from `least` to `most`; `called` is the
/// array.
void require_range(const std::string& called, const std::vector<int>& values,
                   const std::vector<std::size_t>& shape, int least, int most);

}  // namespace fluxformer::data
