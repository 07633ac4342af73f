#pragma once

// Training on masked words: train.objective = masked.

#include <cstdint>
#include <vector>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "model/sample_set.hpp"
#include "model/word_masking.hpp"

namespace fluxformer {

/// Shares of the masked test words that are right by guesses which only count words.
struct CountedGuesses {
  /// Guesses the most frequent word every time.
  double unigram = 0;
  /// Guesses the word that most often follows the one before, if that is visible; else the unigram.
  double bigram = 0;
};

/// Masking of a training: the batches mask other words each time; samples for evaluations stay masked as they
/// are, whatever the seed.
class MaskedTraining {
 public:
  /// Masks `train` (borrowed), of which `members` are the samples to be trained on. Throws BadInput if the
  /// tokens are not words, or if the samples have none that can be masked.
  MaskedTraining(const Settings& settings, const data::Dataset& train,
                 const std::vector<std::size_t>& members);

  const MaskVocabulary& vocabulary() const { return masking_.vocabulary(); }
  /// Masks the batch of a step.
  void mask(Batch& batch) const;
  /// Masked samples for an evaluation. Throws BadInput if they have no words that can be masked.
  SampleSet masked(const SampleSet& samples) const;
  /// Shares of guesses fitted to the training samples, on these test samples. Collective over their ranks.
  CountedGuesses counted(const SampleSet& test) const;

 private:
  const data::Dataset& train_;
  std::vector<std::size_t> members_;
  WordMasking masking_;
  double mean_count_;
  std::uint64_t seed_;
};

}  // namespace fluxformer
