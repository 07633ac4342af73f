#pragma once

// Training on masked words: train.objective = masked.

#include <cstdint>
#include <vector>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "model/sample_set.hpp"
#include "model/word_masking.hpp"

namespace fluxformer {

/// Shares of the masked test words that guesses get right which only count words.
struct CountedGuesses {
  double unigram = 0;  ///< always the most frequent word
  double bigram =
      0;  ///< the word that most often follows the one before, if that is visible; else the unigram
};

/// Masks the batches of a training: other words each time. Those of evaluations stay masked as they are, whatever the seed.
class MaskedTraining {
 public:
  /// `train`, borrowed, and its samples `members` to be trained on. Throws BadInput if its tokens are not words, or if they
  /// have none that can be masked.
  MaskedTraining(const Settings& settings, const data::Dataset& train,
                 const std::vector<std::size_t>& members);

  const MaskVocabulary& vocabulary() const { return masking_.vocabulary(); }
  /// A batch of a step.
  void mask(Batch& batch) const;
  /// Samples for an evaluation. Throws BadInput if they have no words that can be masked.
  SampleSet masked(const SampleSet& samples) const;
  /// Guesses fitted to the training samples, on these test samples. Collective over their ranks.
  CountedGuesses counted(const SampleSet& test) const;

 private:
  const data::Dataset& train_;
  std::vector<std::size_t> members_;
  WordMasking masking_;
  double mean_count_;
  std::uint64_t seed_;
};

}  // namespace fluxformer
