#pragma once

// The data set of a token file: tokens that another program has made.
//
// The contents of a token file: samples of an equal number of tokens, which are words or features.
//
//   ids       (samples, tokens)          whole numbers 0..V-1, or
//   features  (samples, tokens, inputs)  real numbers
//   lengths   (samples)                  real tokens, 1..tokens, before the padding; without it all are
//                                        real, and samples must not end with a word for padding
//   segments  (samples, tokens)          whole numbers from 0; only with ids
//   token_bytes (samples, tokens)        bytes of the text that each token stands for; only with ids
//   labels    (samples)                  whole numbers from 0; in the group test also -1, "unlabelled";
//                                        without it no sample has a label
//   words     (V)                        texts in UTF-8; without it V is the attribute `vocabulary` of
//                                        ids, or the largest id and one
//   specials  (any number)               ids that stand for no word (start, end, padding): never masked
// at the root for both splits, or in the groups train and test; words may be at the root then, too, and
// specials are.

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"

namespace fluxformer::data {

/// The samples of one split. Arrays are row-major; empty where the file has none.
struct TokenTable {
  std::size_t samples = 0;
  int tokens = 0;
  int inputs = 0;  ///< numbers per token of `features`; 0: tokens are words
  std::vector<int> ids, segments, bytes, lengths, labels;
  std::vector<int> specials;  ///< ids that stand for no word; of both splits
  std::variant<std::vector<float>, std::vector<double>> features;  ///< as precise as the file has them
  double largest_feature = 0;                                      ///< in absolute value
  std::vector<std::string> words;
  std::string ids_called;  ///< how messages name the ids

  // Sizes that both splits share.
  int vocabulary = 0;      ///< V; 0: tokens are features
  int segment_count = 0;   ///< the largest segment and one; 0: none
  int classes = 1;         ///< the largest label and one
  bool one_split = false;  ///< both splits are the whole file
};

/// Samples of words (with or without segments) or of features, on a line. The whole table is kept in memory.
class TokenFile final : public Dataset {
 public:
  /// Reads `spec.split` of `spec.file` (contents: above). Samples are cut to `spec.cut` tokens. The sizes of
  /// the model (spec.model) decide the sizes of vocabulary, segments and classes, and limit the tokens;
  /// spec.words are the model's words, if it has them: the words of the file, and perhaps "<mask>". Throws
  /// BadInput that names the file for what does not fit.
  explicit TokenFile(const DatasetSpec& spec);

  std::string name() const override { return "tokens"; }
  std::string origin() const override { return file_; }
  std::size_t size() const override { return table_.samples; }
  int classes() const override { return table_.classes; }
  int label(std::size_t index) const override;
  bool one_split() const override { return table_.one_split; }
  int tokens_x() const override { return tokens_; }
  int tokens_y() const override { return 1; }
  int features() const override {
    return table_.inputs > 0 ? table_.inputs : table_.segments.empty() ? 1 : 2;
  }
  double largest_feature() const override { return table_.largest_feature; }
  void tokens(std::size_t index, double* out) const override;
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override;
  std::string why_no_variants() const override;
  int length(std::size_t index) const override;
  bool padded() const override { return !table_.lengths.empty(); }
  int vocabulary() const override { return table_.vocabulary; }
  int segments() const override { return table_.segment_count; }
  std::vector<std::string> words() const override { return table_.words; }
  int unknown_word() const override { return unknown_; }
  std::vector<int> placeholders() const override;
  std::vector<int> token_bytes(std::size_t index) const override;

 private:
  TokenTable table_;
  std::string file_;
  int tokens_ = 0;    // tokens of a sample, after the cut
  int unknown_ = -1;  // index of the word <unk> or [UNK]
};

}  // namespace fluxformer::data
