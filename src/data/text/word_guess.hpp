#pragma once

// Guesses of a missing word that only count: the baselines of a model that guesses masked words.

#include <cstddef>
#include <vector>

#include "data/dataset.hpp"

namespace fluxformer::data {

/// The most frequent word of some texts, and for every word the one that most often follows it (a bigram guess). The lower
/// index in a tie. Not collective.
class WordGuess {
 public:
  /// Counts the words of samples `members` of `data`, whose tokens are words; `allowed` [word] are those that may be
  /// guessed. O(tokens) time and memory.
  WordGuess(const Dataset& data, const std::vector<std::size_t>& members, const std::vector<char>& allowed);
  /// The unigram guess.
  int likeliest() const { return likeliest_; }
  /// The bigram guess behind `word`; the unigram guess if nothing has followed it.
  int after(int word) const;

 private:
  int likeliest_ = 0;
  std::vector<int> followers_;  // [word]; -1: none
};

}  // namespace fluxformer::data
