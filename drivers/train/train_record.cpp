#include "drivers/train/train_record.hpp"

// The output of a training. Rank 0 writes the weights that it gets from the stages.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numeric>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/axes.hpp"
#include "io/file_names.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint for the course of a training; splits without samples have no accuracy.
constexpr io::NumbersItem course_of_steps{.name = "course_of_steps", .can_be_nan = true},
    course_of_epochs{.name = "course_of_epochs", .can_be_nan = true};

/// Rows as a table of numbers for a checkpoint: the coordinate of a row, then its columns.
template <class Row>
std::vector<double> flat(const std::vector<Row>& rows, double Row::*place,
                         const std::vector<course::Column<Row>>& columns) {
  std::vector<double> numbers;
  for (const auto& row : rows) {
    numbers.push_back(row.*place);
    for (const auto& column : columns) numbers.push_back(row.*(column.value));
  }
  return numbers;
}

/// Rows that `flat` has put into a checkpoint, which must be `count`.
template <class Row>
std::vector<Row> rows_of(const io::CheckpointReader& checkpoint, const io::NumbersItem& item, long count,
                         double Row::*place, const std::vector<course::Column<Row>>& columns) {
  std::vector<Row> rows;
  const std::size_t width = columns.size() + 1;
  const auto numbers = checkpoint.numbers(item, width * static_cast<std::size_t>(count));
  for (std::size_t at = 0; at < numbers.size(); at += width) {
    auto& row = rows.emplace_back();
    row.*place = numbers[at];
    for (std::size_t k = 0; k < columns.size(); ++k) row.*(columns[k].value) = numbers[at + 1 + k];
  }
  return rows;
}

template <class Row>
std::vector<double> values_of(const Row& row, const std::vector<course::Column<Row>>& columns) {
  std::vector<double> values;
  values.reserve(columns.size());
  for (const auto& column : columns) values.push_back(row.*(column.value));
  return values;
}

template <class Row>
io::HistoryTable table(const io::Variable& axis, const std::vector<course::Column<Row>>& columns) {
  io::HistoryTable table{axis, {}};
  for (const auto& column : columns) table.columns.push_back(column.variable);
  return table;
}

template <class Row>
void write_rows(io::ArchiveWriter& archive, const io::Variable& axis, const std::vector<Row>& rows,
                double Row::*place, const std::vector<course::Column<Row>>& columns) {
  if (rows.empty()) return;
  const auto values = [&](double Row::*number) {
    std::vector<double> list;
    list.reserve(rows.size());
    for (const auto& row : rows) list.push_back(row.*number);
    return list;
  };
  archive.axis(axis, values(place));
  std::vector<std::pair<io::Variable, std::vector<double>>> all;
  all.reserve(columns.size());
  for (const auto& column : columns) all.emplace_back(column.variable, values(column.value));
  archive.write(course::group, all);
}

void write_ngrams(io::ArchiveWriter& archive, const CountedGuesses& guesses) {
  std::vector<double> orders(guesses.accuracy.size());
  std::iota(orders.begin(), orders.end(), 1.0);
  archive.axis(course::ngram_order, orders);
  archive.write(course::group, {{course::ngram_accuracy, guesses.accuracy},
                                {course::kneser_ney_perplexity, guesses.kneser_ney},
                                {course::witten_bell_perplexity, guesses.witten_bell}});
}

/// Names of the weight snapshots that are there already. The folder is listed, since a training may be going
/// to write more of them than there is memory for names.
std::vector<std::string> earlier_snapshots(const std::string& output, long every, long last) {
  const std::filesystem::path pattern = io::weights_path(output, "epoch");
  const auto prefix = pattern.stem().string(), suffix = pattern.extension().string();
  std::vector<std::string> found;
  std::error_code problem;  // claiming the output reports it
  const auto folder = pattern.has_parent_path() ? pattern.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() <= prefix.size() + suffix.size()) continue;
    long epoch = -1;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), epoch);
    const auto path = io::weights_path(output, "epoch" + std::to_string(epoch));
    if (epoch >= 0 && epoch <= last && epoch % every == 0 && std::filesystem::path(path).filename() == name)
      found.push_back(path);
  }
  return found;
}

}  // namespace

std::vector<std::string> train_side_files(const TrainOutput& output, const TrainProblem& problem) {
  std::vector<std::string> files{io::history_path(output.file)};
  if (!problem.members.validation.empty()) files.push_back(io::weights_path(output.file, "best"));
  if (output.snapshots > 0)
    std::ranges::move(earlier_snapshots(output.file, output.snapshots, problem.plan.epochs),
                      std::back_inserter(files));
  return files;
}

std::uint64_t least_output_bytes(const TrainProblem& problem) {
  const auto row = [](const auto& columns) { return 1 + columns.size(); };
  return 8 * (problem.parameters->layout.size_of_model() +
              static_cast<std::uint64_t>(problem.total_steps()) * row(course::step_columns()) +
              static_cast<std::uint64_t>(problem.plan.epochs) * row(course::epoch_columns()));
}

TrainRecord::TrainRecord(const TrainOutput& output, RunAttributes run, const TrainProblem& problem,
                         std::unique_ptr<io::PartFile> claim, const io::CheckpointReader* continued)
    : output_(output),
      run_(std::move(run)),
      problem_(problem),
      claim_(std::move(claim)),
      root_(mpi::is_root(problem.comm)) {
  if (continued != nullptr) {
    const long steps = problem.trainer->steps();
    steps_ = rows_of(*continued, course_of_steps, steps, &course::StepRow::step, course::step_columns());
    epochs_ = rows_of(*continued, course_of_epochs, steps / problem.batches->per_epoch(),
                      &course::EpochRow::epoch, course::epoch_columns());
  }
  const auto head = header();
  collectively(problem.comm, [&] {
    if (!root_) return;
    history_ = std::make_unique<io::HistoryFile>(io::history_path(output.file), head,
                                                 table(axes::step, course::step_columns()),
                                                 table(axes::epoch, course::epoch_columns()));
    for (const auto& row : steps_) history_->add_step(row.step, values_of(row, course::step_columns()));
    for (const auto& row : epochs_) history_->add_epoch(row.epoch, values_of(row, course::epoch_columns()));
  });
}

void TrainRecord::watchable(const std::function<void(io::HistoryFile&)>& work) {
  if (history_ == nullptr) return;
  try {
    work(*history_);
  } catch (const Error& e) {
    std::cerr << "fluxformer: the training continues, but its history file is no longer updated: " << e.what()
              << '\n';
    history_.reset();
  }
}

void TrainRecord::add_step(const StepReport& step, double samples_per_second) {
  steps_.push_back({static_cast<double>(step.step), step.loss, step.depth_loss, step.penalty, step.accuracy,
                    step.gradient_norm, step.rate, samples_per_second});
  watchable([&](io::HistoryFile& file) {
    file.add_step(steps_.back().step, values_of(steps_.back(), course::step_columns()));
    const auto now = std::chrono::steady_clock::now();
    if (now - flushed_ < std::chrono::seconds(1)) return;
    file.flush();
    flushed_ = now;
  });
}

void TrainRecord::add_epoch(const EpochReport& epoch) {
  epochs_.push_back({static_cast<double>(epochs_.size() + 1), epoch.train.loss, epoch.train.correct,
                     epoch.validation.loss, epoch.validation.correct, std::exp(epoch.validation.loss),
                     epoch.validation_bits_per_byte, epoch.test.loss, epoch.test.correct,
                     std::exp(epoch.test.loss), epoch.test_bits_per_byte, epoch.wall_time});
  watchable([&](io::HistoryFile& file) {
    file.add_epoch(epochs_.back().epoch, values_of(epochs_.back(), course::epoch_columns()));
    file.flush();
  });
}

Evaluation TrainRecord::mean_since(long first) const {
  Evaluation mean;
  double count = 0;
  for (const auto& row : steps_) {
    if (row.step < static_cast<double>(first)) continue;
    mean.loss += row.loss;
    mean.depth_loss += row.depth_loss;
    mean.correct += row.batch_accuracy;
    count += 1;
  }
  return {mean.loss / count, mean.depth_loss / count, mean.correct / count};
}

io::HistoryHeader TrainRecord::header() const {
  io::HistoryHeader head;
  head.run = run_;
  head.group = course::group;
  head.of_group = {{course::samples, static_cast<long>(problem_.members.training.size())},
                   {course::validation_samples, static_cast<long>(problem_.members.validation.size())},
                   {course::test_samples, static_cast<long>(problem_.members.testing.size())},
                   {course::test_split, std::string(problem_.test->one_split() ? "none" : "own")},
                   {course::trained_parameters, problem_.trainer->trained()}};
  if (problem_.baseline) head.of_group.emplace_back(course::baseline_accuracy, *problem_.baseline);
  // Of next words the n-grams of all lengths are arrays.
  if (problem_.guesses && problem_.guesses->kneser_ney.empty()) {
    head.of_group.emplace_back(course::unigram_accuracy, problem_.guesses->accuracy[0]);
    head.of_group.emplace_back(course::bigram_accuracy, problem_.guesses->accuracy[1]);
  }
  return head;
}

void TrainRecord::write_courses(io::ArchiveWriter& archive) const {
  write_rows(archive, axes::step, steps_, &course::StepRow::step, course::step_columns());
  write_rows(archive, axes::epoch, epochs_, &course::EpochRow::epoch, course::epoch_columns());
  if (problem_.guesses && !problem_.guesses->kneser_ney.empty()) write_ngrams(archive, *problem_.guesses);
  if (steps_.empty()) return;
  for (const auto& [name, value] : header().of_group) archive.attribute(name, value, course::group);
}

void TrainRecord::save(io::CheckpointWriter& checkpoint) const {
  checkpoint.put(course_of_steps, flat(steps_, &course::StepRow::step, course::step_columns()));
  checkpoint.put(course_of_epochs, flat(epochs_, &course::EpochRow::epoch, course::epoch_columns()));
}

std::string TrainRecord::finish(const std::string& status, const std::string& message,
                                const std::vector<std::pair<std::string, double>>& seconds,
                                const std::optional<DepthReport>& depth) {
  io::ArchiveWriter archive(std::move(claim_));
  describe(archive);
  problem_.trainer->stages().for_each_stage(
      *problem_.parameters,
      [&](const auto& views, const double* values) { write_model_arrays(archive, views, values); });
  write_courses(archive);
  if (depth) depth->write(archive, course::group);
  for (const auto& [phase, time] : seconds) archive.timing(phase, time);
  if (!message.empty()) archive.attribute(names::message, message);
  auto written = archive.finish(status);
  // The output now holds the history.
  watchable([&](io::HistoryFile& file) { file.close(status); });
  return written;
}

void TrainRecord::describe(io::ArchiveWriter& archive) const {
  for (const auto& [name, value] : run_) archive.attribute(name, value);
  write_model_attributes(archive, problem_.parameters->spec);
  const auto words = words_of_model(*problem_.train, problem_.words.get());
  if (!words.empty()) archive.words(model_file::embedding_vocabulary, words, model_file::vocabulary_meaning);
}

void TrainRecord::write_weights(const std::string& what) const {
  const auto& trainer = *problem_.trainer;
  // Rank 0 writes. If it fails, the stages still send their weights, and rank 0 drops them.
  std::unique_ptr<io::ArchiveWriter> archive;
  RankFailure failure;
  const auto on_root = [&](const auto& work) {
    if (root_) failure.attempt(work);
  };
  on_root([&] {
    archive = std::make_unique<io::ArchiveWriter>(MPI_COMM_SELF, io::weights_path(output_.file, what), true);
    describe(*archive);
  });
  trainer.stages().for_each_stage(*problem_.parameters, [&](const auto& views, const double* values) {
    on_root([&] { write_model_arrays(*archive, views, values); });
  });
  const auto optimiser =
      trainer.optimiser(output_.preconditioner ? Preconditioner::kept : Preconditioner::left_out);
  on_root([&] {
    write_optimiser(*archive, optimiser);
    archive->finish(names::done);
  });
  failure.share(problem_.comm);
}

}  // namespace fluxformer
