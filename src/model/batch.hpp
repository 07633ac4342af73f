#pragma once

// The samples of one training step on one token line of ranks.

#include <cstdint>
#include <vector>

namespace fluxformer {

struct Batch {
  std::vector<double> input;   ///< [sample][global token][spec.input_size()]
  std::vector<int> length;     ///< real tokens of each sample; empty: all are real
  std::vector<int> label;      ///< class of each sample
  std::vector<double> weight;  ///< of each sample in the loss; 0 for padding of the batch
  std::vector<long> key = {};  ///< of each sample, for random masks: its position in the whole training
};

}  // namespace fluxformer
