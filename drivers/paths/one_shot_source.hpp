#pragma once

// The source of the one-shot task in a deck: its images, and where queries and keys come from.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_learner.hpp"
#include "base/settings.hpp"

namespace fluxformer {

/// The network of one seed in a file of `paths.study = train`.
struct TrainedPaths {
  paths::LearnerShape shape;
  std::vector<double> weights;  ///< laid out by LearnerWeights
};

/// Reads the networks of the given seeds, trained on `images`. `purpose` stands before the path in messages.
/// Not collective: reads on this rank. Throws BadInput for a file without networks, a seed that it does not
/// have, or sizes that do not fit.
std::map<long, TrainedPaths> read_trained_paths(const std::string& path, const std::string& purpose,
                                                const std::string& images, const std::vector<long>& seeds);

/// Images of all pools in memory, and the weights of each seed.
class OneShotSource {
 public:
  /// Reads files on this rank. Throws BadInput.
  OneShotSource(const Settings& settings, const std::vector<long>& seeds);

  const paths::OneShotPools& pools() const { return pools_; }
  /// Heads of each layer, H_1 .. H_L.
  const std::vector<int>& heads() const { return heads_; }
  /// Name of the task, e.g. "one-shot omniglot, trained attention".
  const std::string& name() const { return name_; }
  /// Attention of a seed: read from a file, or random.
  paths::FrozenAttention attention(long seed) const;
  /// Digest of the weights of all seeds; 0 if attention is random.
  std::uint64_t digest() const;
  /// Trained network of a seed; null if attention is random.
  const TrainedPaths* trained(long seed) const;

 private:
  paths::OneShotPools pools_;
  std::map<long, TrainedPaths> trained_;
  paths::LearnerShape random_;
  std::vector<int> heads_;
  std::string name_;
};

/// Sizes of a network by `width` (1 where there is none), paths.layers, .heads and .key.
paths::LearnerShape learner_shape(const Settings& settings, int width);

}  // namespace fluxformer
