#pragma once

// Words of texts and their indices.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fluxformer::data {

/// Words that end a text: the one that is added where a vocabulary has none, and those of published ones.
inline constexpr std::string_view end_marks[] = {"<eos>", "<|endoftext|>", "<|end_of_text|>", "</s>"};

/// True if the words of a model, `known`, are `words`, or these and one that its training added: "<mask>", or
/// "<eos>".
bool same_but_for_added(const std::vector<std::string>& known, const std::vector<std::string>& words);

/// Allows lookups by std::string_view in a map of std::string.
struct WordHash {
  /// Marks the hash as transparent for std::unordered_map.
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
/// A map from words to numbers.
using WordNumbers = std::unordered_map<std::string, std::uint32_t, WordHash, std::equal_to<>>;

/// The words a model knows. Index 0 is padding, 1 stands for every unknown word.
class Vocabulary {
 public:
  static constexpr std::uint32_t pad = 0, unknown = 1;
  static constexpr const char* pad_word = "<pad>";
  static constexpr const char* unknown_word = "<unk>";
  static constexpr const char* mask_word =
      "<mask>";  ///< the placeholder of a model that guesses words; occurs in no text

  /// words[i] gets index i. Throws BadInput unless "<pad>" and "<unk>" come first, at least
  /// one word follows and all differ.
  explicit Vocabulary(std::vector<std::string> words);

  int size() const { return static_cast<int>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  /// The index of a word; `unknown` for a word that is not in the vocabulary.
  std::uint32_t index(std::string_view word) const;

 private:
  std::vector<std::string> words_;
  WordNumbers indices_;
};

/// Numbers the words of a collection in order of appearance and counts the documents that contain each.
class Lexicon {
 public:
  /// The number of `word`: 0, 1, ... in order of first appearance.
  std::uint32_t number(std::string_view word);
  /// Counts one document, given as the numbers of its words.
  void count(const std::vector<std::uint32_t>& document);
  /// The words that occur in the most documents: at most `largest` including <pad> and <unk>, each in at
  /// least `least_count` documents; ties in alphabetical (byte) order. Throws BadInput if no word is left.
  Vocabulary vocabulary(int largest, int least_count) const;
  /// The index in `vocabulary` of each number.
  std::vector<std::uint32_t> indices(const Vocabulary& vocabulary) const;

 private:
  WordNumbers numbers_;
  std::vector<const std::string*> words_;  ///< keys of numbers_, which do not move, [number]
  std::vector<std::uint32_t> documents_;   ///< [number]
  std::vector<std::uint32_t> last_;        ///< [number]: the last document it was counted in, from 1
  std::uint32_t document_ = 0;
};

}  // namespace fluxformer::data
