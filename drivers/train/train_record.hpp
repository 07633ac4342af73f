#pragma once

// The output of a training: its history, intermediate weights, and the output file at the end.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "drivers/common/run_frame.hpp"
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

/// Files that a training may write beside its output, without checkpoints, and weight snapshots that are
/// there already.
std::vector<std::string> train_side_files(const TrainOutput& output, const TrainProblem& problem);
/// Least size of the output, in bytes: the weights and the history.
std::uint64_t least_output_bytes(const TrainProblem& problem);

/// The output of a training. Rank 0 appends to the history file while the training runs; the output file is
/// written once, at the end.
class TrainRecord {
 public:
  /// Records a training, described by the attributes `run`, in the file claimed by `claim`; `problem` is
  /// borrowed. Opens the history file on rank 0, starting with the history in `continued` (may be null).
  /// Collective, like all members below.
  TrainRecord(const TrainOutput& output, RunAttributes run, const TrainProblem& problem,
              std::unique_ptr<io::PartFile> claim, const io::CheckpointReader* continued);

  /// Adds a row to the history: of a step, or of an epoch (course::step_columns, course::epoch_columns).
  void add_step(const StepReport& step, double samples_per_second);
  void add_epoch(const EpochReport& epoch);
  /// Training loss and accuracy as means over the steps since `first`.
  Evaluation mean_since(long first) const;

  /// Test accuracy after an epoch, counted from 1.
  double test_accuracy(long epoch) const;

  /// Writes the current weights to <name>.<what>.h5 (rank 0).
  void write_weights(const std::string& what) const;
  /// Stores the history so far in a checkpoint.
  void save(io::CheckpointWriter& checkpoint) const;

  /// Writes the output file and returns its name (ArchiveWriter::finish). `status` as in the schema,
  /// `message` may be empty.
  std::string finish(const std::string& status, const std::string& message,
                     const std::vector<std::pair<std::string, double>>& seconds);

 private:
  io::HistoryHeader header() const;
  /// Writes the description of the run and of the model, without its arrays.
  void describe(io::ArchiveWriter& archive) const;
  /// Runs `work` on the history file, if there is one. A failure ends only the history; the training
  /// continues.
  void watchable(const std::function<void(io::HistoryFile&)>& work);
  void write_courses(io::ArchiveWriter& archive) const;
  TrainOutput output_;
  RunAttributes run_;
  const TrainProblem& problem_;
  std::unique_ptr<io::PartFile> claim_;
  bool root_ = false;
  std::unique_ptr<io::HistoryFile> history_;  // open on rank 0 only
  std::chrono::steady_clock::time_point flushed_;
  std::vector<course::StepRow> steps_;
  std::vector<course::EpochRow> epochs_;
};

}  // namespace fluxformer
