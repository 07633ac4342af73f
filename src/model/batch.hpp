#pragma once

// The samples that one token line of ranks holds at a time.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/dataset.hpp"

namespace fluxformer {

/// A token whose word is to be guessed. What stands at it in Batch::input may be something else.
struct MaskedWord {
  int sample;     ///< its slot in the batch
  int token;      ///< global index
  int word;       ///< the right one
  double weight;  ///< in the loss
};

/// Sizes are those of the line: every rank of it holds the same batch.
struct Batch {
  std::vector<double> input;            ///< [sample][global token][spec.input_size()]
  std::vector<int> length;              ///< real tokens of each sample; empty: all are real
  std::vector<int> label;               ///< class of each sample
  std::vector<double> weight;           ///< of each sample in the loss; 0 for padding of the batch
  std::vector<long> key = {};           ///< of each sample, for its random draws
  std::vector<MaskedWord> masked = {};  ///< empty unless words are to be guessed
};

/// Room for `capacity` samples of `data`, all of weight 0.
Batch empty_batch(const data::Dataset& data, int capacity);
/// Copies sample `index` of `data` into a slot, except its tokens.
void place(const data::Dataset& data, std::size_t index, long key, double weight, std::size_t slot,
           Batch& batch);
/// The tokens of a slot, [token][feature].
double* tokens_of(Batch& batch, std::size_t slot);

}  // namespace fluxformer
