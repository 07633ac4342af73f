#pragma once

// The one-shot task of attention paths with given queries and keys (one_shot_examples.hpp).

#include <cstdint>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/one_shot_images.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// Sizes and seed.
struct OneShotSettings {
  int examples = 600;        ///< P, of the training pool
  int test_examples = 1000;  ///< of each other pool
  std::uint64_t seed = 0;    ///< of examples and of the embedding of labels
  ExampleShare share = {};   ///< what this rank makes of each pool's examples
};

/// Its test examples are of the test pool, the further ones of validation and of foreign images. Throws BadInput for
/// attention of another dimension.
PathTask one_shot_task(const OneShotPools& pools, const FrozenAttention& attention,
                       const OneShotSettings& settings);

}  // namespace fluxformer::paths
