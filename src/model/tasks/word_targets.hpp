#pragma once

// The words of a batch that a model has to guess: masked ones, or next ones.

#include <cstddef>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "base/random.hpp"
#include "data/dataset.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// The words of a data set as those of a model that guesses masked words: one of them, or one more, is the
/// mask.
struct MaskVocabulary {
  int size = 0;        ///< number of words, the mask included
  int mask = 0;        ///< index of the mask
  bool added = false;  ///< the mask is none of the words of the data set, whose number is its index
  std::vector<int> ordinary =
      {};  ///< words that may be masked: all but placeholders and names such as [CLS] or <pad>
};

/// The vocabulary of a data set with a mask: the word "<mask>" or "[MASK]" if there is one, else a new word.
MaskVocabulary mask_vocabulary(const data::Dataset& data);

/// The same for data whose words have no names, with as many words as a model that was trained on their
/// masked words: its last word is the mask.
MaskVocabulary mask_vocabulary_of_numbers(const data::Dataset& data);

/// Masks words of batches. Not collective.
class WordMasking {
 public:
  /// `data` is borrowed. `share` of the ordinary words of a sample, rounded, but at least one, have to be
  /// guessed.
  WordMasking(const data::Dataset& data, double share) : WordMasking(data, share, mask_vocabulary(data)) {}
  /// The same with a vocabulary that is known.
  WordMasking(const data::Dataset& data, double share, MaskVocabulary vocabulary);

  const MaskVocabulary& vocabulary() const { return vocabulary_; }
  double share() const { return share_; }
  /// 1 for each word that may be masked, else 0; [word].
  const std::vector<char>& ordinary() const { return ordinary_; }
  /// The mean over `members` of the number of words of a sample that have to be guessed; 0 without members.
  double mean_count(const std::vector<std::size_t>& members) const;
  /// Chooses words by draws.item(key of the sample), replaces them in the input, and lists them with the
  /// weight of their sample over `mean_count`: with weights 1/N the loss of all N members is the mean over
  /// their masked words.
  void apply(Batch& batch, const RandomStream& draws, double mean_count) const;

 private:
  std::size_t count(Index words) const;
  std::vector<char> ordinary_;  // [word]
  MaskVocabulary vocabulary_;
  const data::Dataset& data_;
  double share_;
};

/// Samples for an evaluation, in which `share` of the words of `vocabulary` are masked: always the same
/// words, whatever the ranks; those of a sample follow from its place among `samples`. Throws BadInput,
/// beginning with `key`, if no word can be masked.
SampleSet masked_for_evaluation(const SampleSet& samples, double share, const MaskVocabulary& vocabulary,
                                const std::string& key);

/// Lists the next words of batches: each word of a sample but the first, and but those that the sample before it
/// has shown (Dataset::seen), is guessed from the state of the token before it, which a causal model forms without
/// seeing it. Not collective.
class NextWords {
 public:
  /// `data` is borrowed. Padding and the unknown word are seen but never guessed.
  explicit NextWords(const data::Dataset& data);

  /// 1 for each word that may be guessed, else 0; [word].
  const std::vector<char>& possible() const { return possible_; }
  /// The mean over `members` of the number of words of a sample that have to be guessed; 0 without members.
  double mean_count(const std::vector<std::size_t>& members) const;
  /// The mean bytes of the words of `members` that have to be guessed; NaN if they are not known, or if a word that
  /// is never guessed stands for some, since then the guesses do not make up the text.
  double mean_bytes(const std::vector<std::size_t>& members) const;
  /// Lists the words with the weight of their sample over `mean_count`: with weights 1/N the loss of all N
  /// members is the mean over their words.
  void apply(Batch& batch, double mean_count) const;

 private:
  std::vector<char> possible_;  // [word]
  const data::Dataset& data_;
};

/// Samples for an evaluation, in which every word but the first of a text is guessed. Throws BadInput,
/// beginning with `key`, if there is none.
SampleSet next_words_for_evaluation(const SampleSet& samples, const std::string& key);

}  // namespace fluxformer
