#include "drivers/paths/path_training.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include "analysis/paths/learner_training.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/progress.hpp"
#include "drivers/common/restart_check.hpp"
#include "drivers/common/run_frame.hpp"
#include "drivers/paths/learner_record.hpp"
#include "drivers/paths/one_shot_source.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/study/study_record.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

// Items of a checkpoint beside the training of the present seed: finished seeds, their results and, of this
// seed, the courses so far and the best weights.
constexpr io::WholeItem seeds_done{"seeds_done", 0};
constexpr io::NumbersItem results_so_far{"results"}, courses_so_far{"courses"}, best_so_far{"best_weights"};
constexpr io::RealItem loss_so_far{"loss_since"};

class PathTraining final : public Experiment {
 public:
  PathTraining(const Settings& settings, const RunContext& context)
      : settings_(settings), context_(context), seeds_(path_seeds(settings)), source_(settings, seeds_) {}
  /// Throws BadInput if weights and results do not fit into the memory. Collective.
  void require_memory_of_all() const {
    // Memory for weights, gradient, two moments, the best weights and floats; results.
    const double weights = static_cast<double>(LearnerWeights(shape_).size());
    require_memory(context_.comm, sizeof(double) * weights * (6 + 2 * static_cast<double>(seeds_.size())),
                   "the network of paths.width, .layers, .heads and .key");
  }
  std::string describe() const override;
  Report run() override;

 private:
  /// Steps after which the network is evaluated.
  std::vector<double> judged_steps() const;
  void begin(std::size_t seed);
  void restart();
  void checkpoint();
  /// Takes one step and does what is due after it.
  void advance();
  void end_seed();

  Settings settings_;
  RunContext context_;
  RunFrame frame_{settings_, context_};
  std::vector<long> seeds_;
  OneShotSource source_;
  LearnerShape shape_ = learner_shape(settings_, settings_.count("paths.width"));
  LearnerPlan plan_{.batch = settings_.count("paths.batch"),
                    .rate = settings_.real("paths.rate"),
                    .decay = settings_.real("paths.decay")};
  long steps_ = settings_.integer("paths.steps"), every_ = settings_.integer("paths.judge_every");
  int judged_ = settings_.count("paths.judged_examples");
  Cadence checkpoints_{settings_.real("checkpoint.every")};

  std::size_t seed_ = 0;
  std::optional<OneShotExamples> training_, validation_;
  std::optional<LearnerTraining> learner_;
  LearnerCourse course_;
  double loss_since_ = 0;
  std::vector<std::vector<double>> results_;  // learner_numbers of each finished seed
  std::string continued_;
};

std::vector<double> PathTraining::judged_steps() const {
  std::vector<double> steps;
  for (long k = every_; k < steps_ + every_; k += every_)
    steps.push_back(static_cast<double>(std::min(steps_, k)));
  return steps;
}

std::string PathTraining::describe() const {
  std::ostringstream text;
  text << source_.name().substr(0, source_.name().find(',')) << ": a network of " << shape_.layers
       << " layer(s) of " << shape_.heads << " heads, width " << shape_.width << ", "
       << LearnerWeights(shape_).size() << " weights; " << steps_ << " steps of " << plan_.batch
       << " examples, " << seeds_.size() << " seed(s)";
  return text.str();
}

void PathTraining::begin(std::size_t seed) {
  seed_ = seed;
  const auto number = static_cast<std::uint64_t>(seeds_[seed]);
  learner_.reset();
  training_.emplace(source_.pools().training, number, "training");
  validation_.emplace(source_.pools().validation, number, "validation");
  learner_.emplace(context_.comm, shape_, *training_, plan_, number);
  course_ = {};
  loss_since_ = 0;
}

void PathTraining::restart() {
  const auto from = find_checkpoint(context_.comm, settings_);
  if (!from) return begin(0);
  std::size_t each = 0;
  for (const auto& [variable, size] : learner_measures(shape_, judged_steps().size())) each += size;
  const auto done = static_cast<std::size_t>(from->integer(seeds_done));
  if (done >= seeds_.size()) throw BadInput(from->called() + " has more seeds than these settings");
  const auto all = from->numbers(results_so_far, done * each);
  for (std::size_t k = 0; k < done; ++k)
    results_.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(k * each),
                          all.begin() + static_cast<std::ptrdiff_t>((k + 1) * each));
  begin(done);
  learner_->load(*from);
  const auto rows = learner_->steps() == steps_ ? judged_steps().size()
                                                : static_cast<std::size_t>(learner_->steps() / every_);
  const auto courses = from->numbers(courses_so_far, 3 * rows);
  for (std::size_t k = 0; k < rows; ++k) {
    course_.loss.push_back(courses[3 * k]);
    course_.validation_loss.push_back(courses[3 * k + 1]);
    course_.validation_accuracy.push_back(courses[3 * k + 2]);
  }
  if (rows > 0) course_.weights = from->numbers(best_so_far, learner_->weights().size());
  loss_since_ = from->real(loss_so_far);
  continued_ = from->path();
}

void PathTraining::checkpoint() {
  const Stopwatch watch;
  io::CheckpointWriter file(context_.comm, settings_.word("output.file"));
  file.put("settings", settings_.resolved());
  file.put(seeds_done, static_cast<long>(seed_));
  std::vector<double> all, courses;
  for (const auto& one : results_) all.insert(all.end(), one.begin(), one.end());
  file.put(results_so_far, all);
  for (std::size_t k = 0; k < course_.loss.size(); ++k)
    courses.insert(courses.end(),
                   {course_.loss[k], course_.validation_loss[k], course_.validation_accuracy[k]});
  file.put(courses_so_far, courses);
  file.put(best_so_far, course_.weights);
  file.put(loss_so_far, loss_since_);
  learner_->save(file);
  file.commit();
  frame_.add_seconds("output", watch.seconds());
}

void PathTraining::advance() {
  frame_.timed("steps", [&] { loss_since_ += learner_->step(); });
  const long since = learner_->steps() - static_cast<long>(course_.loss.size()) * every_;
  if (since < every_ && learner_->steps() < steps_) return;
  const auto score = frame_.timed(
      "evaluation", [&] { return learner_->evaluate(learner_->weights(), *validation_, judged_); });
  if (!std::isfinite(score.loss))
    throw NumericalFailure("paths.study = train: the loss of validation examples is not finite after " +
                           std::to_string(learner_->steps()) + " steps; a smaller paths.rate may help");
  course_.loss.push_back(loss_since_ / static_cast<double>(since));
  course_.validation_loss.push_back(score.loss);
  course_.validation_accuracy.push_back(score.accuracy);
  loss_since_ = 0;
  if (course_.best() + 1 == course_.loss.size()) course_.weights = learner_->weights();
}

void PathTraining::end_seed() {
  const auto accuracy_on = [&](const OneShotPool& pool, const char* purpose) {
    const OneShotExamples examples(pool, static_cast<std::uint64_t>(seeds_[seed_]), purpose);
    return learner_->evaluate(course_.weights, examples, judged_).accuracy;
  };
  frame_.timed("evaluation", [&] {
    const auto& pools = source_.pools();
    results_.push_back(
        learner_numbers(course_,
                        {accuracy_on(pools.test, "test"), accuracy_on(pools.validation, "validation"),
                         accuracy_on(pools.foreign, "foreign")},
                        judged_steps()));
  });
}

Report PathTraining::run() {
  frame_.begin();
  for (const char* part : {"steps", "evaluation", "output"}) frame_.add_seconds(part, 0);
  restart();
  auto claim = frame_.claim({.datasets = 20});
  StudyRecord record(settings_, context_);
  record.seeds(seeds_);
  if (frame_.root() && !continued_.empty()) std::cerr << "fluxformer: continuing from " << continued_ << '\n';
  frame_.announce(*this);
  const auto done = [&] {
    return static_cast<double>(static_cast<long>(seed_) * steps_ + learner_->steps());
  };
  Progress progress =
      frame_.progress(static_cast<double>(static_cast<long>(seeds_.size()) * steps_), "steps", done());
  while (true) {
    if (learner_->steps() == steps_) {
      end_seed();
      if (results_.size() == seeds_.size()) break;
      begin(seed_ + 1);
    }
    try {
      advance();
    } catch (const Error&) {  // the weights are those before the step
      progress.finish();
      checkpoint();
      throw;
    }
    std::ostringstream note;
    if (!course_.loss.empty())
      note << std::setprecision(3) << "loss " << course_.loss.back() << ", validation "
           << 100 * course_.validation_accuracy.back() << " %";
    progress.update(done(), note.str());
    const bool last = learner_->steps() == steps_ && seed_ + 1 == seeds_.size();
    if (!last && frame_.asked_to_stop()) {
      progress.finish();
      checkpoint();
      return frame_.stopped(
          "after " + std::to_string(learner_->steps()) + " steps of seed " + std::to_string(seeds_[seed_]),
          "continue with --checkpoint.restart=auto");
    }
    if (frame_.due(checkpoints_)) checkpoint();
  }
  progress.finish();
  const auto& pools = source_.pools();
  const auto steps = judged_steps();
  record.note("", stored::images, settings_.word("paths.images"));
  add_learners(record, shape_, steps, {pools.test.name(), pools.validation.name(), pools.foreign.name()},
               results_);
  record.finish(std::move(claim), frame_.parts());
  std::ostringstream text;
  text << "done: test accuracy";
  for (std::size_t k = 0; k < results_.size(); ++k)
    text << (k > 0 ? ", " : " ") << 100 * results_[k][3 * steps.size()] << " % (seed " << seeds_[k] << ')';
  return frame_.done(text.str());
}

}  // namespace

std::unique_ptr<Experiment> make_path_training(const Settings& settings, const RunContext& context) {
  if (settings.word("paths.task") != "one_shot")
    throw BadInput("paths.study = train needs paths.task = one_shot");
  auto experiment =
      collectively(context.comm, [&] { return std::make_unique<PathTraining>(settings, context); });
  experiment->require_memory_of_all();
  return experiment;
}

}  // namespace fluxformer
