#pragma once

// A task like the one-shot classification of images, without images: noisy copies of two prototypes of random
// features are shown with their labels, and the query is another copy of one of them.
//
//   12 tokens = slots 0, 1 (prototypes 0, 1) and 2 (query) x 4 positions
//   token     = [features (16); one-hot position (4); one-hot slot (3); one-hot label (3: 0, 1, unknown)]
//   feature   = (prototype + noise) / sqrt(1 + noise variance)
//
// Two layers of 4 heads, average pooling. Layer 1, head 1 ("match") looks for tokens like the query's at its
// position; layer 2, head 1 takes the mean over tokens; all other heads are standard normal numbers.
// Source: docs/model.md, section 11.12.

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/torch_stream.hpp"

namespace fluxformer::paths {

/// Seeds of the three streams.
struct SurrogateSeeds {
  std::uint32_t train = 0, test = 100;
  std::uint32_t heads = 200;  ///< seed of the random heads of both layers
};

/// Sizes, noise, seeds and share of the task.
struct SurrogateSettings {
  int positions = 4;   ///< positions in a slot
  int features = 16;   ///< F
  double noise = 0.8;  ///< standard deviation; that of the prototypes is 1
  int heads = 4;       ///< heads in each of the two layers; the first one is made, the others are random
  int examples = 200, test_examples = 1000;
  SurrogateSeeds seeds;
  ExampleShare share;  ///< the training and test examples that this rank makes

  int dimension() const { return features + positions + 6; }  ///< D: 3 slots, 3 labels
  int tokens() const { return 3 * positions; }                ///< T
};

/// The seeds that one number stands for: s, s + 100, s + 200. Throws BadInput beyond 32 bits.
SurrogateSeeds surrogate_seeds(std::int64_t seed);

/// Drawn examples, before any attention.
struct SurrogateExamples {
  /// x of each example that this rank holds: D x T, token 4 slot + position for 4 positions.
  std::vector<Eigen::MatrixXd> tokens;
  Eigen::VectorXd targets;  ///< +1 if the query is of prototype 1, else -1
};

/// Draws `count` examples: a coin for each, then one normal fill of count x 5 (prototypes 0, 1, noise of
/// three slots) x features x positions. Throws BadInput for bad settings.
SurrogateExamples surrogate_examples(const SurrogateSettings& settings, int count, TorchStream stream);

/// The frozen heads of the task; random ones are one fill each, layer by layer. Throws BadInput for bad
/// settings.
FrozenAttention surrogate_attention(const SurrogateSettings& settings);

/// Makes the task. Throws BadInput for bad settings.
PathTask surrogate_task(const SurrogateSettings& settings);

}  // namespace fluxformer::paths
