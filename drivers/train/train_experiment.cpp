// `train`: the weights of a Transformer, or of its PDE, fitted to labelled samples.

#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "drivers/common/earlier_runs.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/registry.hpp"
#include "drivers/train/train_problem.hpp"
#include "drivers/train/train_record.hpp"
#include "io/axes.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"

namespace fluxformer {
namespace {

// Items of a checkpoint for the best weights so far.
constexpr io::RealItem best_accuracy{"best", -1, 1 + 1e-9};  // from a sum of shares: 1 but for round-off
constexpr io::WholeItem best_epoch{"best_epoch", 0};

class TrainExperiment final : public Experiment {
 public:
  TrainExperiment(const Settings& settings, const RunContext& context);
  std::string describe() const override { return problem_.describe(); }
  Report run() override;

 private:
  /// True if the output is that of the stopped run.
  bool continues_output() const;
  void restart(const io::CheckpointReader& from);
  void checkpoint(const TrainRecord& record);
  /// Takes one step and does everything due after it; returns false when asked to stop.
  bool advance(TrainRecord& record, Progress& progress);
  void end_epoch(TrainRecord& record);
  /// Perplexity and bits per byte of the test words, to be appended to their accuracy; empty unless next words are
  /// guessed.
  std::string of_next_words(const course::EpochRow& row) const;
  std::string summary(const TrainRecord& record) const;

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  TrainOutput output_;
  TrainProblem problem_;
  // State of the run.
  double best_ = -1;  ///< accuracy on the validation samples
  long best_epoch_ = 0;
  long checkpointed_ = -1;  ///< steps of the newest checkpoint
};

TrainExperiment::TrainExperiment(const Settings& settings, const RunContext& context)
    : settings_(settings),
      context_(context),
      output_(output_of_train(settings)),
      problem_(plan_of_training(settings), context.comm) {}

bool TrainExperiment::continues_output() const {
  const auto& output = output_.file;
  try {
    const io::ArchiveReader file(context_.comm, output);
    return file.text(names::status) == names::interrupted &&
           continues(settings_, file.text(names::settings), output);
  } catch (const Error&) {
    return false;
  }
}

void TrainExperiment::checkpoint(const TrainRecord& record) {
  if (checkpointed_ == problem_.trainer->steps()) return;
  const Stopwatch watch;
  io::CheckpointWriter file(context_.comm, output_.file);
  file.put("settings", settings_.resolved());
  file.put(best_accuracy, best_);
  file.put(best_epoch, best_epoch_);
  problem_.trainer->save(file);
  record.save(file);
  file.commit();
  checkpointed_ = problem_.trainer->steps();
  frame_.add_seconds("output", watch.seconds());
}

void TrainExperiment::restart(const io::CheckpointReader& from) {
  problem_.trainer->load(from);
  checkpointed_ = problem_.trainer->steps();
  best_ = from.real(best_accuracy);
  best_epoch_ = from.integer(best_epoch);
  if (best_epoch_ > checkpointed_ / problem_.batches->per_epoch())
    throw BadInput(from.called() + ": its best epoch " + std::to_string(best_epoch_) +
                   " has not been trained");
}

std::string TrainExperiment::of_next_words(const course::EpochRow& row) const {
  if (problem_.plan.objective.words != ObjectivePlan::Words::next) return "";
  std::ostringstream text;
  text << ", perplexity " << std::setprecision(5) << row.test_perplexity;
  if (std::isfinite(row.test_bits_per_byte))
    text << ", " << std::setprecision(4) << row.test_bits_per_byte << " bits per byte";
  return text.str();
}

void TrainExperiment::end_epoch(TrainRecord& record) {
  const long per_epoch = problem_.batches->per_epoch();
  const long epoch = problem_.trainer->steps() / per_epoch;
  const auto measure = [&](const data::Dataset& data, const std::vector<std::size_t>& members) -> Evaluation {
    const double none = std::numeric_limits<double>::quiet_NaN();
    if (members.empty()) return {none, none, none};
    return problem_.trainer->evaluate(problem_.samples(data, members));
  };
  EpochReport report;
  report.train = record.mean_since((epoch - 1) * per_epoch);
  frame_.timed("evaluation", [&] {
    report.validation = measure(*problem_.train, problem_.members.validation);
    report.test = measure(*problem_.test, problem_.members.testing);
  });
  report.validation_bits_per_byte = report.validation.loss * problem_.validation_bits;
  report.test_bits_per_byte = report.test.loss * problem_.test_bits;
  report.wall_time = frame_.seconds();
  record.add_epoch(report);
  if (frame_.root() && !context_.quiet) {
    std::ostringstream text;
    text << std::fixed << "\nepoch " << epoch << ": loss " << std::setprecision(4) << report.train.loss
         << std::setprecision(2) << ", accuracy " << 100 * report.train.correct << " % training, ";
    if (!problem_.members.validation.empty()) text << 100 * report.validation.correct << " % validation, ";
    if (problem_.members.testing.empty())
      text << "no labels to test on\n";
    else
      text << 100 * report.test.correct
           << (problem_.test->one_split() ? " % test (training samples)" : " % test")
           << of_next_words(record.epoch(epoch)) << '\n';
    std::cerr << text.str();
  }
  frame_.timed("output", [&] {
    if (report.validation.correct > best_) {
      best_ = report.validation.correct;
      best_epoch_ = epoch;
      record.write_weights("best");
    }
    const long every = output_.snapshots;
    if (every > 0 && epoch % every == 0) record.write_weights("epoch" + std::to_string(epoch));
  });
  if (output_.every_epoch) checkpoint(record);
}

bool TrainExperiment::advance(TrainRecord& record, Progress& progress) {
  const Stopwatch watch;
  const auto report = problem_.step();
  const double seconds = watch.seconds();
  frame_.add_seconds("steps", seconds);
  record.add_step(report, problem_.batches->global() / seconds);
  const long steps = problem_.trainer->steps();
  std::ostringstream note;
  note << "loss " << std::setprecision(4) << report.loss;
  progress.update(static_cast<double>(steps), note.str());
  if (steps % problem_.batches->per_epoch() == 0) end_epoch(record);
  const long every = output_.checkpoints;
  if (every > 0 && steps % every == 0) checkpoint(record);
  return steps == problem_.total_steps() || !frame_.asked_to_stop();
}

std::string TrainExperiment::summary(const TrainRecord& record) const {
  std::ostringstream text;
  text << "done: " << problem_.plan.epochs << " epochs, " << problem_.trainer->steps() << " steps, "
       << frame_.seconds() << " s";
  if (problem_.members.testing.empty()) {
    text << "; no test accuracy, since no test sample has a label";
    return text.str();
  }
  text << std::fixed << std::setprecision(2)
       << (problem_.test->one_split() ? "; no test split: accuracy on the training samples "
                                      : "; test accuracy ")
       << 100 * record.epoch(problem_.plan.epochs).test_accuracy << " %"
       << of_next_words(record.epoch(problem_.plan.epochs));
  if (best_epoch_ > 0)
    text << ", " << 100 * record.epoch(best_epoch_).test_accuracy << " % where validation was best (epoch "
         << best_epoch_ << ")";
  return text.str();
}

Report TrainExperiment::run() {
  frame_.begin();
  for (const char* part : {"steps", "evaluation", "output"}) frame_.add_seconds(part, 0);
  const auto continued = find_checkpoint(context_.comm, settings_);
  if (continued) restart(*continued);
  auto claim = frame_.claim({.continues_output = continued && continues_output(),
                             .side_files = train_side_files(output_, problem_),
                             .bytes = least_output_bytes(problem_),
                             .datasets = ParameterLayout(problem_.parameters->spec).views().size()});
  TrainRecord record(output_, run_attributes(settings_, context_), problem_, std::move(claim),
                     continued ? &*continued : nullptr);
  if (frame_.root() && continued)
    std::cerr << "fluxformer: continuing from " << continued->path() << " after " << checkpointed_
              << " steps\n";
  frame_.announce(*this);
  if (problem_.trainer->steps() == 0 && output_.snapshots > 0) record.write_weights("epoch0");

  Progress progress = frame_.progress(static_cast<double>(problem_.total_steps()), "steps",
                                      static_cast<double>(problem_.trainer->steps()));
  Report report;
  std::string status = names::done;
  try {
    while (problem_.trainer->steps() < problem_.total_steps())
      if (!advance(record, progress)) {
        status = names::interrupted;
        break;
      }
  } catch (const NumericalFailure& e) {
    status = names::failed;
    report = {ExitCode::numerical, "fluxformer: " + std::string(e.what())};
  }
  progress.finish();
  if (status == names::interrupted) {
    checkpoint(record);
    report = frame_.stopped("after " + std::to_string(problem_.trainer->steps()) + " steps",
                            "continue with --checkpoint.restart=auto");
  }
  std::optional<DepthReport> depth;
  if (status == names::done && output_.depth_report && problem_.parameters->spec.kind == ModelKind::pde)
    depth = frame_.timed("depth report", [&] { return depth_report(problem_); });
  const auto written = record.finish(status, report.summary, frame_.parts(), depth);
  if (continued && status == names::done) remove_interrupted(context_.comm, settings_);
  if (report.code == ExitCode::done) {
    report = frame_.done(summary(record));
    if (depth) report.summary += "\ndepth: " + depth->text();
    return report;
  }
  report.summary += "\nwritten to " + written;
  return report;
}

void describe_train(io::Description& description) {
  io::describe_archive(description);
  description.variables("/", {axes::step, axes::epoch, course::ngram_order});
  description.attributes(
      course::group, {course::samples, course::validation_samples, course::test_samples, course::test_split,
                      course::trained_parameters, course::baseline_accuracy, course::unigram_accuracy,
                      course::bigram_accuracy});
  for (const auto& column : course::step_columns()) description.variables(course::group, {column.variable});
  for (const auto& column : course::epoch_columns()) description.variables(course::group, {column.variable});
  description.variables(
      course::group, {course::ngram_accuracy, course::kneser_ney_perplexity, course::witten_bell_perplexity});
  DepthReport::describe(description, course::group);
  model_file::describe(description);
  describe_optimiser(description);
  io::describe_checkpoint(description);
}

}  // namespace

ExperimentEntry train_experiment() {
  return {.name = "train",
          .family = "train",
          .sentence = "fits the weights of a Transformer, or of its PDE, to labelled samples",
          .cites = "MODEL: docs/model.md; arXiv 1711.05101; arXiv 2601.09026",
          .declare = declare_train,
          .describe = describe_train,
          .make = [](const Settings& settings, const RunContext& context) {
            return std::make_unique<TrainExperiment>(settings, context);
          }};
}

}  // namespace fluxformer
