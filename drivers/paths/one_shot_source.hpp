#pragma once

// What a deck says of the one-shot task: its images, and where queries and keys come from.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_learner.hpp"
#include "base/settings.hpp"

namespace fluxformer {

/// What a file of `paths.study = train` holds of one seed.
struct TrainedPaths {
  paths::LearnerShape shape;
  std::vector<double> weights;  ///< by LearnerWeights
};

/// Reads all of it, trained on `images`. `purpose` stands before the path in messages. Not collective: reads on this rank. Throws BadInput for a
/// file without it, a seed that it does not have, or sizes that do not fit.
std::map<long, TrainedPaths> read_trained_paths(const std::string& path, const std::string& purpose,
                                                const std::string& images, const std::vector<long>& seeds);

/// Images of all pools in memory, and the weights of each seed.
class OneShotSource {
 public:
  /// Reads files on this rank. Throws BadInput.
  OneShotSource(const Settings& settings, const std::vector<long>& seeds);

  const paths::OneShotPools& pools() const { return pools_; }
  /// H_1 .. H_L
  const std::vector<int>& heads() const { return heads_; }
  /// "one-shot omniglot, trained attention"
  const std::string& name() const { return name_; }
  /// Of a file, or random.
  paths::FrozenAttention attention(long seed) const;
  /// Of the weights of all seeds; 0 if attention is random.
  std::uint64_t digest() const;
  /// Weights of a seed; null if attention is random.
  const TrainedPaths* trained(long seed) const;

 private:
  paths::OneShotPools pools_;
  std::map<long, TrainedPaths> trained_;
  paths::LearnerShape random_;
  std::vector<int> heads_;
  std::string name_;
};

/// The sizes of a network by paths.width (1 where there is none), .layers, .heads and .key.
paths::LearnerShape learner_shape(const Settings& settings, int width);

}  // namespace fluxformer
