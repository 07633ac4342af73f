#pragma once

// The output of a training: its history, intermediate weights, and the output file at the end.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/common/run_frame.hpp"
#include "drivers/train/depth_report.hpp"
#include "drivers/train/train_problem.hpp"
#include "io/archive_writer.hpp"
#include "io/axes.hpp"
#include "io/checkpoint.hpp"
#include "io/history_file.hpp"
#include "io/part_file.hpp"
#include "model/model_file.hpp"

namespace fluxformer {

// The history of a training: the variables of every step, of every epoch and of the training as a whole.
namespace course {

inline constexpr const char* group = model_file::training;

inline const io::Attribute samples{"samples", "training samples"},
    validation_samples{"validation_samples", "samples held out for validation"},
    test_samples{"test_samples", "samples of the test set that have a label"},
    test_split{"test_split", "own, or none: the test samples are the training samples"},
    trained_parameters{"trained_parameters", "number of trained parameters"},
    baseline_accuracy{"baseline_accuracy",
                      "test accuracy of a naive Bayes classifier on the same samples (text only)"},
    unigram_accuracy{"unigram_accuracy",
                     "share of the masked test words that are the most frequent word (masked words only)"},
    bigram_accuracy{
        "bigram_accuracy",
        "share of the masked test words that most often follow the word before (masked words only)"};
inline const io::Variable
    ngram_order = io::index("ngram_order", "n of n-grams, counted from 1"),
    ngram_accuracy{"ngram_accuracy",
                   {"ngram_order"},
                   "",
                   "share of the next test words that most often follow the words before (next words only)"},
    kneser_ney_perplexity{
        "kneser_ney_perplexity",
        {"ngram_order"},
        "",
        "perplexity of the next test words by interpolated Kneser-Ney n-grams (next words only)"},
    witten_bell_perplexity{
        "witten_bell_perplexity",
        {"ngram_order"},
        "",
        "perplexity of the next test words by interpolated Witten-Bell n-grams (next words only)"};

/// A number of a row, and the variable it is stored as.
template <class Row>
struct Column {
  io::Variable variable;
  double Row::*value;
};

/// Numbers of a step.
struct StepRow {
  double step = 0, loss = 0, depth_loss = 0, penalty = 0, batch_accuracy = 0, gradient_norm = 0,
         learning_rate = 0, samples_per_second = 0;
};
/// Columns stored for each step, in this order.
inline const std::vector<Column<StepRow>>& step_columns() {
  static const std::vector<Column<StepRow>> all{
      {{"loss", {"step"}, "", "mean cross entropy of the batch, before the step"}, &StepRow::loss},
      {{"depth_loss",
        {"step"},
        "",
        "loss between hidden states and given ones, layer by layer (distillation), before the step"},
       &StepRow::depth_loss},
      {{"penalty", {"step"}, "", "penalty on how fast the weights change with depth, before the step"},
       &StepRow::penalty},
      {{"batch_accuracy",
        {"step"},
        "",
        "fraction of the batch classified correctly, before the step; of words to guess their number over "
        "that of a batch on average"},
       &StepRow::batch_accuracy},
      {{"gradient_norm", {"step"}, "", "Euclidean norm of the gradient, before it is clipped"},
       &StepRow::gradient_norm},
      {{"learning_rate", {"step"}, "", "learning rate of the step"}, &StepRow::learning_rate},
      {{"samples_per_second", {"step"}, "1/s", "samples per second of wall time"},
       &StepRow::samples_per_second}};
  return all;
}

/// Numbers of an epoch; NaN where a split has no samples.
struct EpochRow {
  double epoch = 0, train_loss = 0, train_accuracy = 0, validation_loss = 0, validation_accuracy = 0,
         validation_perplexity = 0, validation_bits_per_byte = 0, test_loss = 0, test_accuracy = 0,
         test_perplexity = 0, test_bits_per_byte = 0, wall_time = 0;
};
/// Columns stored for each epoch, in this order.
inline const std::vector<Column<EpochRow>>& epoch_columns() {
  static const std::vector<Column<EpochRow>> all{
      {{"train_loss", {"epoch"}, "", "mean loss over the batches of the epoch, each before its step"},
       &EpochRow::train_loss},
      {{"train_accuracy", {"epoch"}, "", "mean accuracy over the batches of the epoch, each before its step"},
       &EpochRow::train_accuracy},
      {{"validation_loss", {"epoch"}, "", "mean loss over the validation samples, after the epoch"},
       &EpochRow::validation_loss},
      {{"validation_accuracy",
        {"epoch"},
        "",
        "fraction of the validation samples (of their words to guess) classified correctly, after the epoch"},
       &EpochRow::validation_accuracy},
      {{"validation_perplexity",
        {"epoch"},
        "",
        "exp(validation_loss): of words the perplexity, if the loss is not smoothed"},
       &EpochRow::validation_perplexity},
      {{"validation_bits_per_byte",
        {"epoch"},
        "bit/B",
        "loss of the validation samples in bits over the bytes of the words to guess (next words of known "
        "bytes "
        "only)"},
       &EpochRow::validation_bits_per_byte},
      {{"test_loss", {"epoch"}, "", "mean loss over the test samples, after the epoch"},
       &EpochRow::test_loss},
      {{"test_accuracy",
        {"epoch"},
        "",
        "fraction of the test samples (of their words to guess) classified correctly, after the epoch"},
       &EpochRow::test_accuracy},
      {{"test_perplexity",
        {"epoch"},
        "",
        "exp(test_loss): of words the perplexity, if the loss is not smoothed"},
       &EpochRow::test_perplexity},
      {{"test_bits_per_byte",
        {"epoch"},
        "bit/B",
        "loss of the test samples in bits over the bytes of the words to guess (next words of known bytes "
        "only)"},
       &EpochRow::test_bits_per_byte},
      {{"wall_time", {"epoch"}, "s", "wall time since the training (or its restart) began"},
       &EpochRow::wall_time}};
  return all;
}

}  // namespace course

/// Mean loss and accuracy of each split after an epoch; NaN where a split has no samples.
struct EpochReport {
  Evaluation train, validation, test;
  double validation_bits_per_byte = 0,
         test_bits_per_byte = 0;  ///< NaN where the bytes of words are not known
  double wall_time = 0;           ///< s, since the program (or its restart) began
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

  /// The numbers of an epoch, counted from 1.
  const course::EpochRow& epoch(long number) const { return epochs_.at(number - 1); }

  /// Writes the current weights to <name>.<what>.h5 (rank 0).
  void write_weights(const std::string& what) const;
  /// Stores the history so far in a checkpoint.
  void save(io::CheckpointWriter& checkpoint) const;

  /// Writes the output file and returns its name (ArchiveWriter::finish). `status` as in the schema,
  /// `message` may be empty.
  std::string finish(const std::string& status, const std::string& message,
                     const std::vector<std::pair<std::string, double>>& seconds,
                     const std::optional<DepthReport>& depth);

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
