#pragma once

// Data sets whose samples are sequences of words.

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/dataset_spec.hpp"
#include "data/text/vocabulary.hpp"

namespace fluxformer::data {

/// Base of data sets whose samples are texts of 1 to tokens_x() words; tokens are the indices of their words,
/// followed by padding.
class TextDataset : public Dataset {
 public:
  int tokens_x() const final { return longest_; }
  int tokens_y() const final { return 1; }
  int features() const final { return 1; }
  int vocabulary() const final { return vocabulary_.size(); }
  std::vector<std::string> words() const final { return vocabulary_.words(); }
  int unknown_word() const final { return Vocabulary::unknown; }
  std::vector<int> placeholders() const final { return {Vocabulary::pad, Vocabulary::unknown}; }
  void tokens(std::size_t index, double* out) const final;
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const final;

  /// The indices of the words of a sample: length(index) of them, none of them padding.
  virtual std::vector<std::uint32_t> text(std::size_t index) const = 0;

 protected:
  /// Every sample has `longest` tokens, padding included.
  TextDataset(Vocabulary vocabulary, int longest);
  const Vocabulary& known() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  int longest_;
};

/// Checks the keys of `spec` that concern every text: length >= 1, vocabulary >= 3, least_count >= 1.
/// Throws BadInput.
void check_text(const DatasetSpec& spec);

}  // namespace fluxformer::data
