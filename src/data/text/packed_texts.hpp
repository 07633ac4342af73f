#pragma once

// Texts joined to one line and cut into samples of equally many tokens, as models of next words are trained.

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "data/dataset.hpp"

namespace fluxformer::data {

/// The word that ends each text where texts are joined.
struct EndWord {
  int index = 0;
  bool added = false;  ///< it is none of the words of the texts, whose number is its index
  std::string name = {};
};

/// The first of `end_marks` that is a word of the texts, else a new word "<eos>" behind the last.
EndWord end_word_of(const Dataset& texts);

/// Texts one behind the other, each with the word `end` behind it unless it ends with that, cut into lines of n
/// tokens: of the T tokens of a part, line k holds k m, k m + 1, ..., k m + n - 1. With m = n - 1 a line shares one
/// token with the next. A line guesses what the one before it did not reach, so that of T tokens all but the
/// first are guessed once, whatever m; those behind the first line see n - m tokens or more. The last line may be
/// shorter, and is padded. Samples are the lines of all parts, in their order.
class PackedTexts final : public Dataset {
 public:
  /// Texts that are joined: indices of samples.
  struct Part {
    std::vector<std::size_t> texts;
    int step = 1;  ///< m, 1 to n - 1
  };
  /// Copies the words of `texts`, whose tokens are words without segments. `tokens` is n, at least 2.
  PackedTexts(const Dataset& texts, EndWord end, int tokens, const std::vector<Part>& parts);

  /// The samples of a part.
  std::vector<std::size_t> lines_of(std::size_t part) const;
  /// Number of tokens of a part, T.
  std::size_t tokens_of(std::size_t part) const { return parts_[part].words.size(); }
  const EndWord& end() const { return end_; }

  std::string name() const override { return name_; }
  std::string origin() const override { return origin_; }
  std::size_t size() const override { return lines_.size(); }
  int classes() const override { return 1; }
  int label(std::size_t index) const override;
  bool one_split() const override { return one_split_; }
  int tokens_x() const override { return tokens_; }
  int tokens_y() const override { return 1; }
  int features() const override { return 1; }
  void tokens(std::size_t index, double* out) const override;
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override;
  std::string why_no_variants() const override { return why_no_variants_; }
  int length(std::size_t index) const override;
  int vocabulary() const override { return vocabulary_; }
  std::vector<std::string> words() const override { return names_; }
  int unknown_word() const override { return unknown_; }
  std::vector<int> placeholders() const override { return placeholders_; }
  int seen(std::size_t index) const override;
  int end_word() const override { return end_.index; }
  std::vector<int> token_bytes(std::size_t index) const override;

 private:
  struct Joined {
    int step;
    std::vector<std::uint32_t> words;
    std::vector<int> bytes;  ///< [word]; empty: not known
  };
  struct Line {
    std::size_t part, first;  ///< place of its first token in its part
  };
  const Line& line(std::size_t index) const;

  std::string name_, origin_, why_no_variants_;
  std::vector<std::string> names_;
  std::vector<int> placeholders_;
  int vocabulary_, unknown_, tokens_;
  bool one_split_;
  EndWord end_;
  std::vector<Joined> parts_;
  std::vector<Line> lines_;
};

}  // namespace fluxformer::data
