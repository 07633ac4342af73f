#pragma once

// The samples that one token line of ranks holds at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "data/dataset.hpp"

namespace fluxformer {

/// A token whose word the model has to guess. Batch::input may hold another word there, such as the mask.
struct MaskedWord {
  int sample;     ///< slot of the sample in the batch
  int token;      ///< global index of the token
  int word;       ///< index of the right word
  double weight;  ///< weight in the loss
};

/// A batch of samples. Every rank of a token line holds the same one, with all tokens of the line.
struct Batch {
  std::vector<double> input;            ///< [sample][global token][spec.input_size()]
  std::vector<int> length;              ///< real tokens of each sample; empty: all are real
  std::vector<int> label;               ///< class of each sample
  std::vector<double> weight;           ///< weight of each sample in the loss; 0 for padding of the batch
  std::vector<long> key = {};           ///< key of the random draws of each sample
  std::vector<MaskedWord> masked = {};  ///< masked words; empty unless the model guesses words
};

/// A batch with room for `capacity` samples of `data`, all of weight 0.
Batch empty_batch(const data::Dataset& data, int capacity);
/// Copies label, length, weight and key of sample `index` of `data` into a slot; the tokens are left as they
/// are.
void put_sample(const data::Dataset& data, Index index, long key, double weight, Index slot, Batch& batch);
/// The tokens of the sample in a slot, [token][feature].
double* tokens_of(Batch& batch, Index slot);

}  // namespace fluxformer
