#pragma once

// The words that stand at the tokens of a batch, and those that attention may go to for want of others.

#include <cstddef>
#include <set>
#include <vector>

#include "data/dataset.hpp"
#include "model/batch.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::identifiability {

/// Indices of words; empty for images.
struct WordClasses {
  std::set<int> frequent;     ///< the twenty most frequent ones, without placeholders
  std::set<int> punctuation;  ///< words without a letter or digit
};

/// [token]: the words of sample `b` of a batch, of which `length` tokens are real; empty for images.
std::vector<int> words_of(const data::Dataset& data, const Batch& batch, std::size_t b, int length);

/// Of some samples. Collective over their ranks.
WordClasses word_classes(const SampleSet& samples);

}  // namespace fluxformer::identifiability
