#pragma once

// Rows of attention that do not depend on the input: the baselines of a score.

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace fluxformer::attention {

/// 1/n for each of n keys.
std::vector<double> uniform_row(int n);

/// Rows with their keys in random order, all n! orders equally likely. The order is keyed by (sample, layer,
/// head, query) with `sample` the global index: the same on any number of ranks, different for each row.
class KeyShuffle {
 public:
  explicit KeyShuffle(std::uint64_t seed) : stream_(seed, "permuted attention keys") {}
  /// Fisher-Yates shuffle of one row. Pass only the real keys, so that padding does not change the order.
  void permute(long sample, int layer, int head, int query, std::span<double> row) const;

 private:
  RandomStream stream_;
};

}  // namespace fluxformer::attention
