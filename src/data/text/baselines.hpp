#pragma once

// Baselines that only count words: naive Bayes for classes of texts, unigrams and bigrams for masked words.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace fluxformer::data {

/// Baselines of a model that guesses masked words: the most frequent word (unigram guess), and for every word
/// the one that most often follows it (bigram guess). The lower index wins a tie. Not collective.
class WordGuess {
 public:
  /// Counts the words of samples `members` of `data`, whose tokens are words; `allowed` [word] are those that
  /// may be guessed. O(tokens) time and memory.
  WordGuess(const Dataset& data, const std::vector<std::size_t>& members, const std::vector<char>& allowed);
  /// The unigram guess.
  int likeliest() const { return likeliest_; }
  /// The bigram guess behind `word`; the unigram guess if nothing has followed it.
  int after(int word) const;

 private:
  int likeliest_ = 0;
  std::vector<int> followers_;  // [word]; -1: none
};

/// Multinomial naive Bayes: picks the class c with the largest
///   log p(c) + sum over words w of n_w log p(w | c),
///   p(c) = documents of c / documents,  p(w | c) = (N_cw + alpha) / (N_c + alpha W)
/// where n_w counts w in the text, N_cw in the training texts of c, N_c = sum_w N_cw, and w runs over the
/// W words of the vocabulary but its placeholders, such as <pad> and <unk>, which are ignored.
/// Source: McCallum and Nigam, "A comparison of event models for naive Bayes text classification", AAAI
/// workshop 1998. Not collective.
class NaiveBayes {
 public:
  /// `alpha` is the smoothing: 1 is Laplace's, less is Lidstone's. Throws BadInput unless alpha > 0.
  explicit NaiveBayes(double alpha);

  /// Counts the words of samples `members` of `train`: O(tokens + vocabulary * classes). Throws BadInput if
  /// its tokens are not words, or there are no samples, or one of them has no label.
  void fit(const Dataset& train, const std::vector<std::size_t>& members);
  /// The same of all samples.
  void fit(const Dataset& train);
  /// The most likely class of a sample of `data`, the lowest one in a tie. A class without training samples
  /// is never predicted. Throws BadInput if `data` has another vocabulary size than the training set, or
  /// `fit` was not called.
  int predict(const Dataset& data, std::size_t index) const;
  /// Share of samples `members` of `data` whose label is predicted correctly; 0 without members.
  double accuracy(const Dataset& data, const std::vector<std::size_t>& members) const;
  /// The same of all samples.
  double accuracy(const Dataset& data) const;

 private:
  double alpha_;
  std::size_t vocabulary_ = 0, classes_ = 0;
  std::vector<double> prior_;  ///< [class]: log p(c)
  std::vector<double> word_;   ///< [word][class]: log p(w | c)
};

}  // namespace fluxformer::data
