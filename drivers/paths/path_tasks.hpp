#pragma once

// The task of an experiment on attention paths, for each of its seeds.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
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

/// Declares the keys of a task, which is any of them, and of its seeds.
void declare_path_task(Options& options);
/// Declares those of experiments that know the one-shot task alone.
void declare_one_shot_task(Options& options);

/// The seeds of paths.seeds, or run.seed alone.
std::vector<long> path_seeds(const Settings& settings);

/// Settings of hidden Markov chains, and of the surrogate of one-shot classification.
struct MarkovPlan {
  paths::MarkovVariant variant = paths::MarkovVariant::four_paths;
  std::vector<long> draws = {};      ///< seeds of the four draws; empty: made from the seed of the task
  std::optional<double> noise = {};  ///< outside the plane of the states; std::nullopt: the published one
};
/// Settings of the task of surrogate features.
struct SurrogatePlan {
  int heads = 4;
  std::optional<double> noise = {};  ///< of the features; std::nullopt: the published one
};

/// Settings of a task.
struct PathTaskPlan {
  std::vector<long> seeds;
  int examples = 0, test_examples = 0;
  std::variant<MarkovPlan, SurrogatePlan, OneShotPlan> task;
};

/// The plan of the task. Throws BadInput, on this rank, for draws and noise that are none, and for a file of
/// trained networks that the output would replace.
PathTaskPlan path_task_plan_of(const Settings& settings);

/// The tasks of a deck, made when they are asked for, and the seeds, sizes and parts that they share.
class PathTasks {
 public:
  /// Reads images and trained networks on this rank; throws BadInput. The ranks of `together` share the
  /// examples of each task.
  PathTasks(PathTaskPlan plan, MPI_Comm together);

  /// Ranks that share each task.
  MPI_Comm together() const { return together_; }

  const std::vector<long>& seeds() const { return plan_.seeds; }
  const std::vector<int>& heads() const { return heads_; }
  /// Number of attention paths of the network, H_1 ... H_L.
  int paths() const;
  /// Dimension D of an input token.
  int dimension() const { return dimension_; }
  int test_examples() const { return plan_.test_examples; }
  int examples() const { return plan_.examples; }
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
  /// The images and the weights that were read; none for a task that makes its samples.
  std::vector<Study::Source> sources() const {
    return one_shot_ ? one_shot_->sources() : std::vector<Study::Source>{};
  }
  /// Attention of the one-shot task, and the tokens of its training examples, for a seed.
  paths::FrozenAttention attention_of(long seed) const { return one_shot_.value().attention(seed); }
  std::function<Eigen::MatrixXd(int)> tokens_of(long seed) const;

 private:
  /// Takes over names, heads and parts of a task.
  void set_up(const MarkovPlan& plan);
  void set_up(const SurrogatePlan& plan);
  void set_up(const OneShotPlan& plan);
  /// Makes the task of a seed.
  paths::PathTask make(const MarkovPlan& plan, long seed) const;
  paths::PathTask make(const SurrogatePlan& plan, long seed) const;
  paths::PathTask make(const OneShotPlan& plan, long seed) const;

  PathTaskPlan plan_;
  MPI_Comm together_;
  paths::ExampleShare share_;
  std::string name_;
  std::vector<int> heads_;
  std::vector<NetworkPart> parts_;
  std::vector<std::string> further_;
  std::optional<OneShotSource> one_shot_;
  int dimension_ = 0;
  std::map<long, std::unique_ptr<paths::PathTask>> tasks_;
  std::map<long, std::unique_ptr<paths::TaskTheory>> theories_;
};

}  // namespace fluxformer
