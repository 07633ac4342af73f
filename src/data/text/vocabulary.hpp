#pragma once

// Words of texts and their indices.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fluxformer::data {

/// Lets a map of std::string be asked with a std::string_view.
struct WordHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};
using WordNumbers = std::unordered_map<std::string, std::uint32_t, WordHash, std::equal_to<>>;

/// The words a model knows: index 0 is padding, 1 stands for every other word.
class Vocabulary {
 public:
  static constexpr std::uint32_t pad = 0, unknown = 1;
  static constexpr const char* pad_word = "<pad>";
  static constexpr const char* unknown_word = "<unk>";

  /// words[i] becomes the word of index i. Throws BadInput unless "<pad>" and "<unk>" come first, at least
  /// one word follows and all differ.
  explicit Vocabulary(std::vector<std::string> words);

  int size() const { return static_cast<int>(words_.size()); }
  const std::vector<std::string>& words() const { return words_; }
  /// `unknown` for a word that is not there.
  std::uint32_t index(std::string_view word) const;

 private:
  std::vector<std::string> words_;
  WordNumbers indices_;
};

/// Numbers the words of a collection as they come and counts the documents each one occurs in.
class Lexicon {
 public:
  /// The number of `word`: 0, 1, ... in the order of their first appearance.
  std::uint32_t number(std::string_view word);
  /// One document, as numbers of its words.
  void count(const std::vector<std::uint32_t>& document);
  /// The words in the most documents, at most `largest` with <pad> and <unk>, each in at least `least_count`
  /// documents; words in equally many documents in alphabetical (byte) order. Throws BadInput if no word
  /// is left.
  Vocabulary vocabulary(int largest, int least_count) const;
  /// Index in `vocabulary` of each number.
  std::vector<std::uint32_t> indices(const Vocabulary& vocabulary) const;

 private:
  WordNumbers numbers_;
  std::vector<const std::string*> words_;  ///< [number], in the keys of numbers_, which stay in place
  std::vector<std::uint32_t> documents_;   ///< [number]
  std::vector<std::uint32_t> last_;        ///< [number]: the document it was counted in last, from 1
  std::uint32_t document_ = 0;
};

}  // namespace fluxformer::data
