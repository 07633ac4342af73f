// `paths_train`: networks of attention paths, queries and keys included, trained on one-shot examples.

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <optional>
#include <sstream>
#include <utility>

#include "analysis/paths/learner_training.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "drivers/paths/one_shot_source.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/layout.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

// Items of a checkpoint beside the training of the present seed: the courses so far and the best weights.
constexpr io::NumbersItem courses_so_far{"courses"}, best_so_far{"best_weights"};
constexpr io::RealItem loss_so_far{"loss_since"};

/// Course of a training at each evaluation, and its best weights.
struct LearnerCourse {
  std::vector<double> loss = {}, validation_loss = {}, validation_accuracy = {};
  std::vector<double> weights = {};
  /// Index of the evaluation with the least validation loss, from 0.
  std::size_t best() const {
    return static_cast<std::size_t>(std::ranges::min_element(validation_loss) - validation_loss.begin());
  }
};

/// Settings of a training.
struct PathTrainingPlan {
  std::vector<long> seeds;
  OneShotPlan examples;
  LearnerShape shape;
  LearnerPlan learner;
  long steps = 0, judge_every = 0;  ///< steps of the training, and between two evaluations
  int judged = 0;                   ///< examples of an evaluation
};

PathTrainingPlan training_plan_of(const Settings& settings) {
  PathTrainingPlan plan{.seeds = path_seeds(settings),
                        .examples = one_shot_plan_of(settings),
                        .shape = {},
                        .learner = {.batch = settings.count("paths.batch"),
                                    .rate = settings.real("paths.rate"),
                                    .decay = settings.real("paths.decay")},
                        .steps = settings.integer("paths.steps"),
                        .judge_every = settings.integer("paths.judge_every"),
                        .judged = settings.count("paths.judged_examples")};
  plan.shape = plan.examples.random;
  plan.shape.width = settings.count("paths.width");
  return plan;
}

study::Contents contents_of_training() {
  return {{stored::judged_step, stored::judged_set, axes::layer, axes::head, stored::projection,
           stored::query_unit, stored::input_unit, stored::unit, stored::other_unit},
          {stored::images, stored::judged_sets},
          {},
          {stored::learned_loss, stored::validation_loss, stored::validation_accuracy,
           stored::judged_accuracy, stored::best_step, stored::input_weights, stored::projections,
           stored::values, stored::readout_weights},
          names::in(names::analysis, stored::group)};
}

class PathTraining final : public Study {
 public:
  /// Reads images on this rank; throws BadInput.
  PathTraining(PathTrainingPlan plan, MPI_Comm comm)
      : plan_(std::move(plan)), comm_(comm), source_(plan_.examples, plan_.seeds) {}
  /// Throws BadInput if weights and results do not fit into the memory. Collective.
  void require_memory_of_all() const {
    // Memory for weights, gradient, two moments, the best weights and floats; results.
    const double weights = static_cast<double>(LearnerWeights(plan_.shape).size());
    require_memory(comm_, sizeof(double) * weights * (6 + 2 * static_cast<double>(plan_.seeds.size())),
                   "the network of paths.width, .layers, .heads and .key");
  }
  std::string describe() const override;
  std::vector<Place> places() const override;
  std::string unit() const override { return "seeds"; }
  int ranks_of_place() const override { return all_ranks; }
  std::vector<Source> sources() const override { return source_.sources(); }
  void begin(StudyRecord& record) override;
  /// Trains the network of a seed and evaluates its best weights.
  void measure(const Place& place, Results& to) override;
  bool half_way() const override { return learner_.has_value(); }
  void save(io::CheckpointWriter& file) const override;
  void load(const Place& place, const io::CheckpointReader& file) override;
  bool conclude(const Findings&, RunFrame&, StudyRecord&) override { return true; }
  std::string summary(const Findings& found) const override;

 private:
  /// Steps after which the network is evaluated.
  std::vector<double> judged_steps() const;
  /// Makes the network of a seed, with its initial weights.
  void start(long seed);
  /// Takes one step, and evaluates the network if that is due.
  void advance();
  void put_weights(Results& to) const;

  PathTrainingPlan plan_;
  MPI_Comm comm_;
  OneShotSource source_;

  // The training of the present seed.
  std::optional<OneShotExamples> training_, validation_;
  std::optional<LearnerTraining> learner_;
  LearnerCourse course_;
  double loss_since_ = 0;
};

std::vector<double> PathTraining::judged_steps() const {
  std::vector<double> steps;
  for (long k = plan_.judge_every; k < plan_.steps + plan_.judge_every; k += plan_.judge_every)
    steps.push_back(static_cast<double>(std::min(plan_.steps, k)));
  return steps;
}

std::string PathTraining::describe() const {
  std::ostringstream text;
  text << source_.name().substr(0, source_.name().find(',')) << ": a network of " << plan_.shape.layers
       << " layer(s) of " << plan_.shape.heads << " heads, width " << plan_.shape.width << ", "
       << LearnerWeights(plan_.shape).size() << " weights; " << plan_.steps << " steps of "
       << plan_.learner.batch << " examples, " << plan_.seeds.size() << " seed(s)";
  return text.str();
}

std::vector<Place> PathTraining::places() const {
  std::vector<Place> all;
  for (std::size_t s = 0; s < plan_.seeds.size(); ++s)
    all.push_back({.group = stored::network_group,
                   .name = "seed " + std::to_string(plan_.seeds[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

void PathTraining::begin(StudyRecord& record) {
  const auto& pools = source_.pools();
  const std::vector<std::string> sets{pools.test.name(), pools.validation.name(), pools.foreign.name()};
  record.seeds(plan_.seeds);
  record.axis(stored::judged_step, judged_steps());
  record.axis(stored::judged_set, 0, static_cast<long>(sets.size()) - 1);
  record.axis(axes::layer, 1, plan_.shape.layers);
  record.axis(axes::head, 0, plan_.shape.heads - 1);
  record.axis(stored::projection, 0, 1);
  record.axis(stored::query_unit, 0, plan_.shape.key - 1);
  record.axis(stored::input_unit, 0, plan_.shape.dimension - 1);
  record.axis(stored::unit, 0, plan_.shape.width - 1);
  record.axis(stored::other_unit, 0, plan_.shape.width - 1);
  record.note("", stored::images, plan_.examples.images);
  record.note("", stored::judged_sets, as_lines(sets));
}

void PathTraining::start(long seed) {
  const auto number = static_cast<std::uint64_t>(seed);
  learner_.reset();
  training_.emplace(source_.pools().training, number, "training");
  validation_.emplace(source_.pools().validation, number, "validation");
  learner_.emplace(comm_, plan_.shape, *training_, plan_.learner, number);
  course_ = {};
  loss_since_ = 0;
}

void PathTraining::load(const Place& place, const io::CheckpointReader& file) {
  start(plan_.seeds[place.along(axes::seed)]);
  learner_->load(file);
  const auto rows = learner_->steps() == plan_.steps
                        ? judged_steps().size()
                        : static_cast<std::size_t>(learner_->steps() / plan_.judge_every);
  const auto courses = file.numbers(courses_so_far, static_cast<Index>(3 * rows));
  for (std::size_t k = 0; k < rows; ++k) {
    course_.loss.push_back(courses[3 * k]);
    course_.validation_loss.push_back(courses[3 * k + 1]);
    course_.validation_accuracy.push_back(courses[3 * k + 2]);
  }
  if (rows > 0) course_.weights = file.numbers(best_so_far, std::ssize(learner_->weights()));
  loss_since_ = file.real(loss_so_far);
}

void PathTraining::save(io::CheckpointWriter& file) const {
  std::vector<double> courses;
  for (std::size_t k = 0; k < course_.loss.size(); ++k)
    courses.insert(courses.end(),
                   {course_.loss[k], course_.validation_loss[k], course_.validation_accuracy[k]});
  file.put(courses_so_far, courses);
  file.put(best_so_far, course_.weights);
  file.put(loss_so_far, loss_since_);
  learner_->save(file);
}

void PathTraining::advance() {
  loss_since_ += learner_->step();
  const long since = learner_->steps() - static_cast<long>(course_.loss.size()) * plan_.judge_every;
  if (since < plan_.judge_every && learner_->steps() < plan_.steps) return;
  const auto score = learner_->evaluate(learner_->weights(), *validation_, plan_.judged);
  if (!std::isfinite(score.loss))
    throw NumericalFailure("the loss of validation examples is not finite after " +
                           std::to_string(learner_->steps()) + " steps; a smaller paths.rate may help");
  course_.loss.push_back(loss_since_ / static_cast<double>(since));
  course_.validation_loss.push_back(score.loss);
  course_.validation_accuracy.push_back(score.accuracy);
  loss_since_ = 0;
  if (course_.best() + 1 == course_.loss.size()) course_.weights = learner_->weights();
}

void PathTraining::measure(const Place& place, Results& to) {
  const long seed = plan_.seeds[place.along(axes::seed)];
  if (!learner_) start(seed);
  while (learner_->steps() < plan_.steps) {
    advance();
    if (learner_->steps() == plan_.steps) break;
    std::ostringstream note;
    if (!course_.loss.empty())
      note << std::setprecision(3) << "loss " << course_.loss.back() << ", validation "
           << 100 * course_.validation_accuracy.back() << " %";
    if (!to.go_on(static_cast<double>(learner_->steps()) / static_cast<double>(plan_.steps), note.str()))
      return;
  }
  const auto accuracy_on = [&](const OneShotPool& pool, const char* purpose) {
    const OneShotExamples examples(pool, static_cast<std::uint64_t>(seed), purpose);
    return learner_->evaluate(course_.weights, examples, plan_.judged).accuracy;
  };
  const auto& pools = source_.pools();
  to.put(stored::judged_accuracy,
         {accuracy_on(pools.test, "test"), accuracy_on(pools.validation, "validation"),
          accuracy_on(pools.foreign, "foreign")});
  to.put(stored::learned_loss, course_.loss);
  to.put(stored::validation_loss, course_.validation_loss);
  to.put(stored::validation_accuracy, course_.validation_accuracy);
  to.put(stored::best_step, {judged_steps()[course_.best()]});
  put_weights(to);
  learner_.reset();
}

// The best weights, laid out by LearnerWeights: input weights, projections, values, read-out.
void PathTraining::put_weights(Results& to) const {
  const Index width = plan_.shape.width, heads = Index{plan_.shape.layers} * plan_.shape.heads,
              inputs = width * plan_.shape.dimension,
              projected = heads * 2 * plan_.shape.key * plan_.shape.dimension;
  auto at = course_.weights.begin();
  const auto put = [&](const io::Variable& variable, Index count) {
    to.put(variable, {at, at + count});
    at += count;
  };
  put(stored::input_weights, inputs);
  put(stored::projections, projected);
  put(stored::values, heads * width * width);
  put(stored::readout_weights, width);
}

std::string PathTraining::summary(const Findings& found) const {
  std::ostringstream text;
  text << "test accuracy";
  for (std::size_t k = 0; k < found.count(); ++k)
    text << (k > 0 ? ", " : " ") << 100 * found.at(k, stored::judged_accuracy).front() << " % ("
         << found.places()[k].name << ')';
  return text.str();
}

void declare_paths_train(Options& options) {
  declare_one_shot_task(options);
  options.declare("paths.width", 128L, "width N of all layers of the trained network",
                  {.minimum = 1, .maximum = 1 << 16});
  options.declare("paths.steps", 3000L, "number of training steps", {.minimum = 1, .maximum = 1 << 30});
  options.declare("paths.batch", 128L, "number of new examples in each step, shared by the ranks",
                  {.minimum = 1});
  options.declare("paths.rate", 3e-4, "learning rate of Adam", {.minimum = 1e-12});
  options.declare("paths.decay", 5e-5, "weight decay: this multiple of the weights is added to the gradient",
                  {.minimum = 0});
  options.declare(
      "paths.judge_every", 100L,
      "steps between two evaluations on validation examples; the weights of the best one are stored",
      {.minimum = 1, .maximum = 1 << 30});
  options.declare("paths.judged_examples", 1000L,
                  "number of validation examples, and of test examples at the end", {.minimum = 2});
  declare_study_run(options, "paths.h5");
}

}  // namespace

ExperimentEntry paths_train_experiment() {
  return study_entry(
      {.name = "paths_train",
       .family = "paths",
       .sentence = "trains networks of attention paths on one-shot examples, queries and keys included",
       .cites = "docs/model.md; arXiv 2405.15926",
       .declare = declare_paths_train,
       .former = "paths"},
      contents_of_training, [](const Settings& s, MPI_Comm comm) {
        auto made =
            collectively(comm, [&] { return std::make_unique<PathTraining>(training_plan_of(s), comm); });
        made->require_memory_of_all();
        return made;
      });
}

}  // namespace fluxformer
