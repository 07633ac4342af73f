#pragma once

// The output of a training: its history, intermediate weights, and the output file at the end.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/train/train_problem.hpp"
#include "drivers/train/train_variables.hpp"
#include "io/archive_writer.hpp"
#include "io/checkpoint.hpp"
#include "io/history_file.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// Mean loss and accuracy of each split after an epoch; NaN where a split has no samples.
struct EpochReport {
  Evaluation train, validation, test;
  double wall_time = 0;  ///< s, since the program (or its restart) began
};

/// Files that a training may write beside its output, without checkpoints; copies of the weights if they are there.
std::vector<std::string> train_side_files(const Settings& settings, const TrainProblem& problem);
/// What the output needs for certain, in bytes: the weights and the history.
std::uint64_t least_output_bytes(const TrainProblem& problem);

/// Rank 0 appends to the history file while the training runs; the output file is written once, at the end.
class TrainRecord {
 public:
  /// For the file claimed by `claim`; the other arguments are borrowed. Opens the history file on rank 0,
  /// starting with the history in `continued` (may be null). Collective, like all members below.
  TrainRecord(const Settings& settings, const RunContext& context, const TrainProblem& problem,
              std::unique_ptr<io::PartFile> claim, const io::CheckpointReader* continued);

  /// A row of the history: of a step, of an epoch (course::step_columns, course::epoch_columns).
  void add_step(const StepReport& step, double samples_per_second);
  void add_epoch(const EpochReport& epoch);
  /// Training loss and accuracy as means over the steps since `first`.
  Evaluation mean_since(long first) const;

  /// After epoch 1, 2, ....
  double test_accuracy(long epoch) const;

  /// Writes the current weights to <name>.<what>.h5 (rank 0).
  void write_weights(const std::string& what) const;
  /// Puts the history so far into a checkpoint.
  void save(io::CheckpointWriter& checkpoint) const;

  /// The output file, whose name it returns (ArchiveWriter::finish). `status` as in the schema, `message` may
  /// be empty.
  std::string finish(const std::string& status, const std::string& message,
                     const std::vector<std::pair<std::string, double>>& seconds);

 private:
  io::HistoryHeader header() const;
  /// The run and the model, without its arrays.
  void describe(io::ArchiveWriter& archive) const;
  /// Runs `work` on the history file, if there is one. A failure ends only the history; the training
  /// continues.
  void watchable(const std::function<void(io::HistoryFile&)>& work);
  void write_courses(io::ArchiveWriter& archive) const;
  const Settings& settings_;
  const RunContext& context_;
  const TrainProblem& problem_;
  std::unique_ptr<io::PartFile> claim_;
  bool root_ = false;
  std::unique_ptr<io::HistoryFile> history_;  // rank 0
  std::chrono::steady_clock::time_point flushed_;
  std::vector<course::StepRow> steps_;
  std::vector<course::EpochRow> epochs_;
};

}  // namespace fluxformer
