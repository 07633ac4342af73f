#pragma once

// What a training writes: its course, weights on the way, and the output file at the end.

#include <string>
#include <vector>

#include "base/options.hpp"
#include "drivers/experiment.hpp"
#include "drivers/train_problem.hpp"
#include "io/archive_writer.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// Mean loss and accuracy of each split after an epoch; NaN where a split has no samples.
struct EpochReport {
  Evaluation train, validation, test;
  double wall_time = 0;  ///< s, since the program (or its restart) began
};

class TrainRecord {
 public:
  /// Opens the history file on rank 0. All arguments are borrowed. Collective, as all below; throws BadInput
  /// if the output exists and may not be overwritten or its folder cannot be written.
  TrainRecord(const Settings& settings, const RunContext& context, const TrainProblem& problem,
              bool overwrite);

  void add_step(const StepReport& step, double samples_per_second);
  void add_epoch(const EpochReport& epoch);
  /// Training loss and accuracy as means over the steps since `first`.
  Evaluation mean_since(long first) const;
  double last_loss() const { return steps_.back()[1]; }
  const std::vector<std::vector<double>>& epochs() const { return epochs_; }

  /// The weights as they are now in <name>.<what>.h5, written by rank 0.
  void write_weights(const std::string& what) const;
  void save(CheckpointWriter& checkpoint) const;
  void load(const CheckpointReader& checkpoint);
  /// The output file. `status` as in the schema, `message` may be empty.
  void finish(const std::string& status, const std::string& message,
              const std::vector<std::pair<std::string, double>>& seconds);

 private:
  using Rows = std::vector<std::vector<double>>;
  void describe(ArchiveWriter& archive) const;
  void write_courses(ArchiveWriter& archive) const;
  const Settings& settings_;
  const RunContext& context_;
  const TrainProblem& problem_;
  bool overwrite_;
  bool root_ = false;
  Rows steps_, epochs_;  // first entry: number of the step or epoch
};

/// "out/train.h5", "best" -> "out/train.best.h5".
std::string beside(const std::string& output, const std::string& what);

}  // namespace fluxformer
