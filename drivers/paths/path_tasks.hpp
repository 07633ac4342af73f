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
#include "drivers/paths/one_shot_source.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

/// A part of a network: some of its heads.
struct NetworkPart {
  std::string name;
  std::vector<std::vector<int>> kept;  ///< heads of each layer, 0-based
};

/// The seeds of paths.seeds, or run.seed alone.
std::vector<long> path_seeds(const Settings& settings);

/// The tasks of a deck, made when they are asked for, and the seeds, sizes and parts that they share.
class PathTasks {
 public:
  /// Reads the keys of the task; `settings` is borrowed. The ranks of `together` share the examples of each
  /// task. Throws BadInput for settings that fit no task.
  PathTasks(const Settings& settings, MPI_Comm together);

  /// Ranks that share each task.
  MPI_Comm together() const { return together_; }

  const std::vector<long>& seeds() const { return seeds_; }
  const std::vector<int>& heads() const { return heads_; }
  /// Number of attention paths of the network, H_1 ... H_L.
  int paths() const;
  /// Dimension D of an input token.
  int dimension() const { return dimension_; }
  int test_examples() const { return test_examples_; }
  int examples() const { return examples_; }
  /// Sub-networks whose Gaussian-process limit is reported for comparison.
  const std::vector<NetworkPart>& parts() const { return parts_; }
  /// True if the first path is the one that is made for the task.
  bool first_is_good() const { return !one_shot_; }
  /// Names of the further examples of a task (PathTask::further).
  const std::vector<std::string>& further() const { return further_; }
  /// Name of the task, e.g. "markov, four paths".
  const std::string& name() const { return name_; }
  /// Adds the notes of the task, and the axes of its parts and further examples.
  void describe(StudyRecord& record);
  /// Memory of the kernels of one seed on each of the ranks that share them, bytes.
  double kernel_bytes() const;

  /// Task of a seed with its kernels; kept until the end. Collective over `together`.
  const paths::TaskTheory& of(long seed);
  /// Task of a seed without kernels: this rank's share of its examples. Not collective.
  const paths::PathTask& task_of(long seed);
  /// Trained network of a seed; null if the task is not one-shot or has none.
  const TrainedPaths* trained(long seed) const { return one_shot_ ? one_shot_->trained(seed) : nullptr; }
  /// Digest of the weights that were read, of all seeds; 0 without a file.
  std::uint64_t attention_digest() const { return one_shot_ ? one_shot_->digest() : 0; }
  /// Attention of the one-shot task, and the tokens of its training examples, for a seed.
  paths::FrozenAttention attention_of(long seed) const { return one_shot_.value().attention(seed); }
  std::function<Eigen::MatrixXd(int)> tokens_of(long seed) const;

 private:
  paths::PathTask make(long seed) const;

  const Settings& settings_;
  MPI_Comm together_;
  std::string name_;
  std::vector<long> seeds_;
  std::vector<long> draws_;  // markov: four seeds, or none
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
