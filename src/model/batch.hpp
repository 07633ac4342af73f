#pragma once

// The samples of one training step, as one token line of ranks sees them.

#include <cstdint>
#include <vector>

namespace fluxformer {

struct Batch {
  std::vector<double> input;   ///< [sample][global token][spec.input_size()]
  std::vector<int> length;     ///< real tokens of each sample; empty: all are real
  std::vector<int> label;      ///< class of each sample
  std::vector<double> weight;  ///< of each sample in the loss; 0 for one that only fills the batch
  std::vector<long> key = {};  ///< of each sample, for random masks: its place in the whole training
};

}  // namespace fluxformer
