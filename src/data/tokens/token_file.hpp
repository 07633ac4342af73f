#pragma once

// The data set of a token file: tokens that another program has made.

#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"
#include "data/tokens/token_table.hpp"

namespace fluxformer::data {

/// Samples of words (with or without segments) or of features, on a line. The whole table is kept in memory.
class TokenFile final : public Dataset {
 public:
  /// Reads `spec.split` of `spec.file` (token_table.hpp). Samples are cut to `spec.cut` tokens. The sizes of
  /// the model (spec.model) decide the sizes of vocabulary, segments and classes, and limit the tokens;
  /// spec.words are the model's words, if it has them: the words of the file, and perhaps "<mask>". Throws
  /// BadInput that names the file for what does not fit.
  explicit TokenFile(const DatasetSpec& spec);

  std::string name() const override { return "tokens"; }
  std::size_t size() const override { return table_.samples; }
  int classes() const override { return table_.classes; }
  int label(std::size_t index) const override;
  int tokens_x() const override { return tokens_; }
  int tokens_y() const override { return 1; }
  int features() const override {
    return table_.inputs > 0 ? table_.inputs : table_.segments.empty() ? 1 : 2;
  }
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

 private:
  TokenTable table_;
  std::string file_;
  int tokens_ = 0;    // of a sample, after the cut
  int unknown_ = -1;  // the word <unk> or [UNK]
};

}  // namespace fluxformer::data
