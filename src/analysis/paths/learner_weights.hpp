#pragma once

// Shape and weights of a network of attention paths that is trained (path_learner.hpp).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// All layers have equally many heads.
struct LearnerShape {
  int dimension = 0;  ///< D, of a token
  int tokens = 0;     ///< T
  int width = 0;      ///< N
  int layers = 0;     ///< L
  int heads = 0;      ///< H
  int key = 0;        ///< G, of queries and keys
};

/// Where the weights stand in the flat vector, each block row-major:
///   [V_0: width x dimension][layer][queries, keys: heads x key x dimension][layer][head][V^T: width in x width out][a: width]
class LearnerWeights {
 public:
  /// Throws BadInput for a size below 1.
  explicit LearnerWeights(const LearnerShape& shape);
  const LearnerShape& shape() const { return shape_; }
  std::size_t size() const { return end_; }

  /// V_0: [width][dimension].
  std::span<const double> input(std::span<const double> all) const;
  /// Of one layer, from 0: [head][g][dimension].
  std::span<const double> queries(std::span<const double> all, int layer) const;
  std::span<const double> keys(std::span<const double> all, int layer) const;
  /// Of all layers: [layer][head][in][out].
  std::span<const double> values(std::span<const double> all) const;
  std::span<const double> readout(std::span<const double> all) const;

  /// First places of the blocks.
  std::size_t values_at() const { return values_; }
  std::size_t readout_at() const { return readout_; }
  std::size_t projections_at() const { return projections_; }

  /// Normal numbers of variance 1 / (columns of the matrix), by (seed, place).
  std::vector<double> initial(std::uint64_t seed) const;
  /// The queries and keys as frozen attention with average pooling.
  FrozenAttention attention(std::span<const double> all) const;
  /// f = sum of the entries of xi times these (paths x D): PathExamples.
  RowMatrix input_weights(std::span<const double> all) const;

 private:
  LearnerShape shape_;
  std::size_t projections_, values_, readout_, end_;
};

}  // namespace fluxformer::paths
