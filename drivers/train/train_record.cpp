#include "drivers/train/train_record.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.hpp"
#include "drivers/common/run_attributes.hpp"
#include "io/schema.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

constexpr const char* step_names[] = {
    names::loss,          names::depth_loss,    names::penalty,           names::batch_accuracy,
    names::gradient_norm, names::learning_rate, names::samples_per_second};
constexpr const char* epoch_names[] = {
    names::train_loss, names::train_accuracy, names::validation_loss, names::validation_accuracy,
    names::test_loss,  names::test_accuracy,  names::wall_time};

std::string training(const char* name) {
  return names::in(names::training, name);
}

std::vector<double> flat(const std::vector<std::vector<double>>& rows) {
  std::vector<double> numbers;
  for (const auto& row : rows) numbers.insert(numbers.end(), row.begin(), row.end());
  return numbers;
}

std::vector<std::vector<double>> rows_of(const std::vector<double>& numbers, std::size_t width) {
  std::vector<std::vector<double>> rows;
  for (std::size_t at = 0; at + width <= numbers.size(); at += width)
    rows.emplace_back(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                      numbers.begin() + static_cast<std::ptrdiff_t>(at + width));
  return rows;
}

std::vector<double> column(const std::vector<std::vector<double>>& rows, std::size_t which) {
  std::vector<double> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(row[which]);
  return values;
}

template <std::size_t n>
std::vector<std::string> list(const char* const (&words)[n]) {
  return {std::begin(words), std::end(words)};
}

}  // namespace

TrainRecord::TrainRecord(const Settings& settings, const RunContext& context, const TrainProblem& problem,
                         bool overwrite, const io::CheckpointReader* continued)
    : settings_(settings),
      context_(context),
      problem_(problem),
      overwrite_(overwrite),
      claim_(std::make_unique<io::PartFile>(context.comm, settings.word("output.file"), overwrite)) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(context.comm, &rank));
  root_ = rank == 0;
  if (continued != nullptr) {
    steps_ = rows_of(continued->numbers("course_of_steps"), std::size(step_names) + 1);
    epochs_ = rows_of(continued->numbers("course_of_epochs"), std::size(epoch_names) + 1);
  }
  const auto head = header();
  collectively(context.comm, [&] {
    if (!root_) return;
    history_ = std::make_unique<io::HistoryFile>(history_path(settings.word("output.file")), head,
                                                 list(step_names), list(epoch_names));
    for (const auto& row : steps_) history_->add_step(row[0], std::span(row).subspan(1));
    for (const auto& row : epochs_) history_->add_epoch(row[0], std::span(row).subspan(1));
  });
}

void TrainRecord::watchable(const std::function<void(io::HistoryFile&)>& work) {
  if (history_ == nullptr) return;
  try {
    work(*history_);
  } catch (const Error& e) {
    std::cerr << "fluxformer: the training goes on, but its course can no longer be watched: " << e.what()
              << '\n';
    history_.reset();
  }
}

void TrainRecord::add_step(const StepReport& step, double samples_per_second) {
  steps_.push_back({static_cast<double>(step.step), step.loss, step.depth_loss, step.penalty, step.accuracy,
                    step.gradient_norm, step.rate, samples_per_second});
  watchable([&](io::HistoryFile& file) {
    file.add_step(steps_.back()[0], std::span(steps_.back()).subspan(1));
    const auto now = std::chrono::steady_clock::now();
    if (now - flushed_ < std::chrono::seconds(1)) return;
    file.flush();
    flushed_ = now;
  });
}

void TrainRecord::add_epoch(const EpochReport& epoch) {
  epochs_.push_back({static_cast<double>(epochs_.size() + 1), epoch.train.loss, epoch.train.correct,
                     epoch.validation.loss, epoch.validation.correct, epoch.test.loss, epoch.test.correct,
                     epoch.wall_time});
  watchable([&](io::HistoryFile& file) {
    file.add_epoch(epochs_.back()[0], std::span(epochs_.back()).subspan(1));
    file.flush();
  });
}

double TrainRecord::test_accuracy(long epoch) const {
  const auto* const column = std::ranges::find(epoch_names, std::string(names::test_accuracy));
  return epochs_.at(static_cast<std::size_t>(epoch - 1))[static_cast<std::size_t>(column - epoch_names) + 1];
}

Evaluation TrainRecord::mean_since(long first) const {
  Evaluation mean;
  double count = 0;
  for (const auto& row : steps_) {
    if (row[0] < static_cast<double>(first)) continue;
    mean.loss += row[1];
    mean.depth_loss += row[2];
    mean.correct += row[4];
    count += 1;
  }
  return {mean.loss / count, mean.depth_loss / count, mean.correct / count};
}

io::HistoryHeader TrainRecord::header() const {
  io::HistoryHeader head;
  head.run = run_attributes("train", "MODEL: docs/model.md; arXiv 1711.05101; arXiv 2601.09026", settings_,
                            context_);
  head.training = {{names::samples, static_cast<long>(problem_.training.size())},
                   {names::validation_samples, static_cast<long>(problem_.validation.size())},
                   {names::test_samples, static_cast<long>(problem_.testing.size())},
                   {names::trained_parameters, static_cast<long>(problem_.trainer.trained())}};
  if (problem_.baseline) head.training.emplace_back(names::baseline_accuracy, *problem_.baseline);
  return head;
}

void TrainRecord::describe(io::ArchiveWriter& archive) const {
  for (const auto& [name, value] : header().run) archive.attribute(name, value);
  write_model(archive, problem_.parameters);
  const auto words = problem_.train->words();
  if (!words.empty())
    archive.words(names::embedding_vocabulary, words,
                  std::string(schema_entry(names::embedding_vocabulary).doc));
}

void TrainRecord::write_courses(io::ArchiveWriter& archive) const {
  const auto write = [&](const char* axis, const Rows& rows, const auto& columns) {
    if (rows.empty()) return;
    const auto meaning = meaning_of(names::root(axis));
    archive.axis({axis, column(rows, 0), meaning.unit, meaning.long_name, false, true});
    std::vector<std::vector<double>> courses;
    std::vector<io::SmallArray> arrays;
    for (std::size_t k = 0; k < std::size(columns); ++k) courses.push_back(column(rows, k + 1));
    for (std::size_t k = 0; k < std::size(columns); ++k) {
      const auto path = training(columns[k]);
      arrays.push_back({path, {rows.size()}, courses[k].data(), meaning_of(path), {axis}});
    }
    archive.arrays(arrays);
  };
  write(names::step, steps_, step_names);
  write(names::epoch, epochs_, epoch_names);
  if (steps_.empty()) return;
  for (const auto& [name, value] : header().training) archive.attribute(name, value, names::training);
}

void TrainRecord::write_weights(const std::string& what) const {
  collectively(context_.comm, [&] {
    if (!root_) return;
    io::ArchiveWriter archive(MPI_COMM_SELF, weights_path(settings_.word("output.file"), what), true);
    describe(archive);
    archive.finish(names::done);
  });
}

void TrainRecord::save(io::CheckpointWriter& checkpoint) const {
  checkpoint.put("course_of_steps", flat(steps_));
  checkpoint.put("course_of_epochs", flat(epochs_));
}

void TrainRecord::finish(const std::string& status, const std::string& message,
                         const std::vector<std::pair<std::string, double>>& seconds) {
  claim_.reset();
  io::ArchiveWriter archive(context_.comm, settings_.word("output.file"), overwrite_);
  describe(archive);
  write_courses(archive);
  for (const auto& [phase, time] : seconds) archive.timing(phase, time);
  if (!message.empty()) archive.attribute(names::message, message);
  archive.finish(status);
  // The course is in the output now.
  watchable([&](io::HistoryFile& file) { file.close(status); });
}

}  // namespace fluxformer
