#pragma once

// The task of a deck of `paths`, for each of its seeds.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/task_theory.hpp"
#include "base/settings.hpp"
#include "drivers/compare/study_record.hpp"
#include "drivers/paths/one_shot_source.hpp"

namespace fluxformer {

/// A part of a network: some of its heads.
struct NetworkPart {
  std::string name;
  std::vector<std::vector<int>> kept;  ///< heads of each layer, 0-based
};

/// paths.seeds, or run.seed alone.
std::vector<long> path_seeds(const Settings& settings);

/// Seeds, sizes and parts that all tasks of a deck share, and the tasks themselves once they are asked for.
class PathTasks {
 public:
  /// Throws BadInput for settings that fit no task. The ranks of `together` share the examples of each task.
  PathTasks(const Settings& settings, MPI_Comm together);

  /// The ranks that share each task.
  MPI_Comm together() const { return together_; }

  const std::vector<long>& seeds() const { return seeds_; }
  const std::vector<int>& heads() const { return heads_; }
  /// Hs, of the network.
  int paths() const;
  /// D, of an input token.
  int dimension() const { return dimension_; }
  int test_examples() const { return test_examples_; }
  int examples() const { return examples_; }
  /// Those whose Gaussian processes are laid beside the whole network's.
  const std::vector<NetworkPart>& parts() const { return parts_; }
  /// Whether the first path is the one that is made for the task.
  bool first_is_good() const { return !one_shot_; }
  /// Names of the further examples of a task (PathTask::further).
  const std::vector<std::string>& further() const { return further_; }
  /// "markov, four paths"
  const std::string& name() const { return name_; }
  /// Notes of the task, and the axes of its parts and further examples.
  void describe(StudyRecord& record);
  /// Memory of the kernels of one seed on each of the ranks that share them.
  double kernel_bytes() const;

  /// The task of a seed and its kernels; kept until the end. Collective over `together`.
  const paths::TaskTheory& of(long seed);
  /// The task alone: this rank's share of its examples. Not collective.
  const paths::PathTask& task_of(long seed);
  /// Of the one-shot task: its trained network, null if there is none; its attention, and the tokens of its training examples.
  const TrainedPaths* trained(long seed) const { return one_shot_ ? one_shot_->trained(seed) : nullptr; }
  /// Of the weights that were read, those of all seeds; 0 without a file.
  std::uint64_t attention_digest() const { return one_shot_ ? one_shot_->digest() : 0; }
  paths::FrozenAttention attention_of(long seed) const { return one_shot_.value().attention(seed); }
  std::function<Eigen::MatrixXd(int)> tokens_of(long seed) const;

 private:
  paths::PathTask make(long seed) const;

  const Settings& settings_;
  MPI_Comm together_;
  std::string name_;
  std::vector<long> seeds_;
  std::vector<long> draws_;  // of markov: four seeds, or none
  std::vector<int> heads_;
  std::vector<NetworkPart> parts_;
  std::vector<std::string> further_;
  std::optional<OneShotSource> one_shot_;
  std::optional<double> noise_;
  int dimension_ = paths::markov_dimension;
  int examples_, test_examples_;
  paths::ExampleShare share_;
  std::map<long, std::unique_ptr<paths::PathTask>> tasks_;
  std::map<long, std::unique_ptr<paths::TaskTheory>> theories_;
};

}  // namespace fluxformer
