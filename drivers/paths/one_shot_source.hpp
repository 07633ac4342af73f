#pragma once

// The source of the one-shot task: its images, and where queries and keys come from.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_learner.hpp"
#include "base/settings.hpp"
#include "drivers/study/study.hpp"

namespace fluxformer {

/// Settings of the one-shot task.
struct OneShotPlan {
  std::string images, foreign, directory;  ///< of one_shot_pools
  std::uint64_t images_seed = 1;           ///< of one_shot_pools
  paths::LearnerShape random;  ///< sizes of a network with random queries and keys; its width is still 1
  std::string attention = {};  ///< file of trained networks; empty: queries and keys are random
  /// Sizes that the deck names, which must be those of the file: key and size.
  std::vector<std::pair<std::string, int>> given = {};
};

/// Declares the keys of images and sizes, but for paths.heads.
void declare_one_shot(Options& options);
/// The plan with random queries and keys.
OneShotPlan one_shot_plan_of(const Settings& settings);
/// The plan with those of paths.attention. Throws BadInput, on this rank, if the output would replace that file.
OneShotPlan one_shot_plan_with_attention(const Settings& settings);

/// The network of one seed in a file of `paths_train`.
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
  OneShotSource(const OneShotPlan& plan, const std::vector<long>& seeds);

  const paths::OneShotPools& pools() const { return pools_; }
  /// Heads of each layer, H_1 .. H_L.
  const std::vector<int>& heads() const { return heads_; }
  /// Name of the task, e.g. "one-shot omniglot, trained attention".
  const std::string& name() const { return name_; }
  /// Attention of a seed: read from a file, or random.
  paths::FrozenAttention attention(long seed) const;
  /// The images, which may come from files, and the weights of all seeds if they were read.
  /// Not collective: the same on ranks that have read the same files.
  std::vector<Study::Source> sources() const;
  /// Trained network of a seed; null if attention is random.
  const TrainedPaths* trained(long seed) const;

 private:
  paths::OneShotPools pools_;
  std::map<long, TrainedPaths> trained_;
  paths::LearnerShape random_;
  std::vector<int> heads_;
  std::string name_;
  std::string images_, foreign_, attention_;  // as in the plan
};

}  // namespace fluxformer
