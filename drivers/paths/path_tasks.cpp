#include "drivers/paths/path_tasks.hpp"

#include <cstdint>
#include <limits>
#include <utility>

#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_variables.hpp"
#include "analysis/paths/surrogate_task.hpp"
#include "base/error.hpp"
#include "drivers/common/run_options.hpp"

namespace fluxformer {
namespace {

using namespace paths;

/// Seeds in paths.draws; empty if the key lists none.
std::vector<long> draws_of(const Settings& settings) {
  const auto& draws = settings.integers("paths.draws");
  if (!draws.empty() && draws.size() != 4)
    throw BadInput(
        "paths.draws = " + value_text(settings.value("paths.draws")) +
        ": four seeds are needed, of training examples, test examples, heads of layer 1 and of layer 2");
  return draws;
}

/// The noise of paths.noise; std::nullopt if it is the published one.
std::optional<double> noise_of(const Settings& settings) {
  const auto& text = settings.word("paths.noise");
  if (text == "published") return {};
  const Option number{.name = "paths.noise", .fallback = 0.0, .doc = "", .minimum = 0, .maximum = 1e6};
  try {
    return std::get<double>(parse_value(number, text));
  } catch (const BadInput&) {
    throw BadInput("paths.noise = " + text + ": must be one number " + range_text(number) +
                   ", or 'published'");
  }
}

void declare_markov(Options& options) {
  options.declare("paths.variant", "four_paths",
                  "four_paths: two heads in each layer, one of which has random weights; two_paths: two "
                  "heads in the first layer and one in the second",
                  {.choices = {"four_paths", "two_paths"}});
  options.declare("paths.draws", std::vector<long>{},
                  "seeds of the training examples, of the test examples, of the heads of layer 1 and of "
                  "those of layer 2 (published: 27, 59, 147, 247), instead of s, s + 100, s + 200, s + 300 "
                  "for each seed s of paths.seeds; empty: those of paths.seeds",
                  {.minimum = 0, .maximum = std::numeric_limits<int>::max()});
}

void declare_seeds(Options& options) {
  options.declare("paths.seeds", std::vector<long>{},
                  "seeds of data and random heads, e.g. 1, 2, 3; empty: run.seed alone",
                  {.minimum = 0, .maximum = std::numeric_limits<int>::max()});
  options.declare(seed_option("seed of the task, unless there are paths.seeds"));
}

Option heads_option(const std::string& doc) {
  return {.name = "paths.heads", .fallback = 4L, .doc = doc, .minimum = 1, .maximum = 32};
}

}  // namespace

void declare_path_task(Options& options) {
  options.declare("paths.task", "markov",
                  "markov: tell hidden Markov chains that stay in their state from those that leave it; "
                  "surrogate: tell which of two prototypes of random features is shown again; one_shot: the "
                  "same with drawings of characters",
                  {.choices = {"markov", "surrogate", "one_shot"}});
  options.declare_when(When{"paths.task", "markov"}, declare_markov);
  options.declare_when(When{"paths.task", "one_shot"}, [](Options& one_shot) {
    declare_one_shot(one_shot);
    one_shot.declare("paths.attention", "random",
                     "file written by paths_train, whose queries and keys are used for the same seeds; "
                     "random: queries and keys are drawn");
  });
  options.declare_when(When{"paths.task", {"surrogate", "one_shot"}}, [](Options& with_heads) {
    with_heads.declare(
        heads_option("number of heads in each layer; for the surrogate task one head is made "
                     "for the task, and the others are random"));
  });
  options.declare_when(When{"paths.task", {"markov", "surrogate"}}, [](Options& with_noise) {
    with_noise.declare("paths.noise", "published",
                       "standard deviation of the noise: for markov outside the plane of the two states "
                       "(published: 1 with four paths, 5 with two), for surrogate in the features, whose own "
                       "standard deviation is 1 (published: 0.8)");
  });
  declare_seeds(options);
}

void declare_one_shot_task(Options& options) {
  options.declare("paths.task", "one_shot",
                  "one_shot: tell which of two drawings of characters is shown again; there are trained "
                  "networks for no other task",
                  {.choices = {"one_shot"}});
  declare_one_shot(options);
  options.declare(heads_option("number of heads in each layer"));
  declare_seeds(options);
}

std::vector<long> path_seeds(const Settings& settings) {
  auto seeds = settings.integers("paths.seeds");
  if (seeds.empty()) seeds.push_back(settings.integer("run.seed"));
  return seeds;
}

PathTaskPlan path_task_plan_of(const Settings& settings) {
  PathTaskPlan plan{.seeds = path_seeds(settings),
                    .examples = settings.count("paths.examples"),
                    .test_examples = settings.count("paths.test_examples"),
                    .task = {}};
  const auto& task = settings.word("paths.task");
  if (task == "one_shot") {
    plan.task = one_shot_plan_with_attention(settings);
  } else if (task == "surrogate") {
    plan.task = SurrogatePlan{.heads = settings.count("paths.heads"), .noise = noise_of(settings)};
  } else {
    const bool four = settings.word("paths.variant") == "four_paths";
    MarkovPlan markov{.variant = four ? MarkovVariant::four_paths : MarkovVariant::two_paths,
                      .draws = draws_of(settings),
                      .noise = noise_of(settings)};
    if (!markov.draws.empty() && plan.seeds.size() > 1)
      throw BadInput(
          "paths.draws names the seeds of a single task: paths.seeds must be one number beside it");
    plan.task = std::move(markov);
  }
  return plan;
}

PathTasks::PathTasks(PathTaskPlan plan, MPI_Comm together)
    : plan_(std::move(plan)), together_(together), share_(share_of(together, plan_.examples)) {
  std::visit([this](const auto& task) { set_up(task); }, plan_.task);
}

void PathTasks::set_up(const MarkovPlan& plan) {
  const bool four = plan.variant == MarkovVariant::four_paths;
  name_ = four ? "markov, four paths" : "markov, two paths";
  dimension_ = markov_dimension;
  heads_ = four ? std::vector<int>{2, 2} : std::vector<int>{2, 1};
  parts_ = {{"good", {{0}, {0}}}, {"good and denoising", {{0, 1}, {0}}}};
}

void PathTasks::set_up(const SurrogatePlan& plan) {
  name_ = "surrogate";
  dimension_ = SurrogateSettings{}.dimension();
  heads_ = {plan.heads, plan.heads};
  parts_ = {{"good", {{0}, {0}}}};
  if (plan.heads > 1) parts_.push_back({"random", {{1}, {1}}});
}

void PathTasks::set_up(const OneShotPlan& plan) {
  one_shot_.emplace(plan, plan_.seeds);
  name_ = one_shot_->name();
  dimension_ = one_shot_dimension;
  heads_ = one_shot_->heads();
  further_ = {one_shot_->pools().validation.name(), one_shot_->pools().foreign.name()};
}

int PathTasks::paths() const {
  return path_count(heads_);
}

void PathTasks::describe(StudyRecord& record) {
  const auto& task = task_of(plan_.seeds.front());
  std::string heads;
  for (const int count : heads_) heads += (heads.empty() ? "" : ", ") + std::to_string(count);
  record.note("", variables::task, name_);
  record.note("", variables::path_names, as_lines(task.path_names));
  record.note("", variables::heads, heads);
  record.note("", variables::dimension, static_cast<long>(task.dimension));
  record.note("", variables::train_examples, static_cast<long>(plan_.examples));
  if (!parts_.empty()) {
    std::vector<std::string> names;
    names.reserve(parts_.size());
    for (const auto& part : parts_) names.push_back(part.name);
    record.axis(variables::part, 0, static_cast<long>(parts_.size()) - 1);
    record.note("", variables::parts, as_lines(names));
  }
  if (!further_.empty()) {
    record.axis(variables::further_set, 0, static_cast<long>(further_.size()) - 1);
    record.note("", variables::further_sets, as_lines(further_));
  }
}

double PathTasks::kernel_bytes() const {
  return paths::kernel_bytes(plan_.examples, paths(), dimension_, share_.ranks);
}

PathTask PathTasks::make(const OneShotPlan&, long seed) const {
  return one_shot_task(one_shot_->pools(), one_shot_->attention(seed),
                       {.examples = plan_.examples,
                        .test_examples = plan_.test_examples,
                        .seed = static_cast<std::uint64_t>(seed),
                        .share = share_});
}

PathTask PathTasks::make(const SurrogatePlan& plan, long seed) const {
  SurrogateSettings of;
  of.heads = plan.heads;
  if (plan.noise) of.noise = *plan.noise;
  of.examples = plan_.examples;
  of.test_examples = plan_.test_examples;
  of.seeds = surrogate_seeds(seed);
  of.share = share_;
  return surrogate_task(of);
}

PathTask PathTasks::make(const MarkovPlan& plan, long seed) const {
  auto of = published_markov(plan.variant);
  if (plan.noise) of.noise.perpendicular = *plan.noise;
  of.examples = plan_.examples;
  of.test_examples = plan_.test_examples;
  of.seeds = markov_seeds(seed);
  of.share = share_;
  if (const auto& draws = plan.draws; !draws.empty())
    of.seeds = {.train = static_cast<std::uint32_t>(draws[0]),
                .test = static_cast<std::uint32_t>(draws[1]),
                .layer_1 = static_cast<std::uint32_t>(draws[2]),
                .layer_2 = static_cast<std::uint32_t>(draws[3])};
  return markov_task(of);
}

const PathTask& PathTasks::task_of(long seed) {
  auto& task = tasks_[seed];
  if (!task)
    task = std::make_unique<PathTask>(
        std::visit([&](const auto& plan) { return make(plan, seed); }, plan_.task));
  return *task;
}

std::function<Eigen::MatrixXd(int)> PathTasks::tokens_of(long seed) const {
  return
      [drawn = OneShotExamples(one_shot_.value().pools().training, static_cast<std::uint64_t>(seed),
                               "posterior")](int k) { return drawn.tokens(static_cast<std::uint64_t>(k)); };
}

const TaskTheory& PathTasks::of(long seed) {
  auto& theory = theories_[seed];
  if (!theory) {
    const auto* task = collectively(together_, [&] { return &task_of(seed); });
    theory = std::make_unique<TaskTheory>(*task, together_);
  }
  return *theory;
}

}  // namespace fluxformer
