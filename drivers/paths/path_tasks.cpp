#include "drivers/paths/path_tasks.hpp"

#include <cstdint>

#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_variables.hpp"
#include "analysis/paths/surrogate_task.hpp"
#include "base/error.hpp"

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

}  // namespace

std::vector<long> path_seeds(const Settings& settings) {
  auto seeds = settings.integers("paths.seeds");
  if (seeds.empty()) seeds.push_back(settings.integer("run.seed"));
  return seeds;
}

PathTasks::PathTasks(const Settings& settings, MPI_Comm together)
    : settings_(settings),
      together_(together),
      seeds_(path_seeds(settings)),
      noise_(noise_of(settings)),
      examples_(settings.count("paths.examples")),
      test_examples_(settings.count("paths.test_examples")),
      share_(share_of(together, examples_)) {
  if (settings.word("paths.task") == "markov") {
    const bool four = settings.word("paths.variant") == "four_paths";
    name_ = four ? "markov, four paths" : "markov, two paths";
    heads_ = four ? std::vector<int>{2, 2} : std::vector<int>{2, 1};
    parts_ = {{"good", {{0}, {0}}}, {"good and denoising", {{0, 1}, {0}}}};
    draws_ = draws_of(settings);
    if (!draws_.empty() && seeds_.size() > 1)
      throw BadInput(
          "paths.draws names the seeds of a single task: paths.seeds must be one number beside it");
  } else if (settings.word("paths.task") == "one_shot") {
    one_shot_.emplace(settings, seeds_);
    name_ = one_shot_->name();
    dimension_ = one_shot_dimension;
    heads_ = one_shot_->heads();
    further_ = {one_shot_->pools().validation.name(), one_shot_->pools().foreign.name()};
  } else {
    const int heads = settings.count("paths.heads");
    name_ = "surrogate";
    dimension_ = SurrogateSettings{}.dimension();
    heads_ = {heads, heads};
    parts_ = {{"good", {{0}, {0}}}};
    if (heads > 1) parts_.push_back({"random", {{1}, {1}}});
  }
}

int PathTasks::paths() const {
  return path_count(heads_);
}

void PathTasks::describe(StudyRecord& record) {
  const auto& task = task_of(seeds_.front());
  std::string heads;
  for (const int count : heads_) heads += (heads.empty() ? "" : ", ") + std::to_string(count);
  record.note("", variables::task, name_);
  record.note("", variables::path_names, as_lines(task.path_names));
  record.note("", variables::heads, heads);
  record.note("", variables::dimension, static_cast<long>(task.dimension));
  record.note("", variables::train_examples, static_cast<long>(examples_));
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
  return paths::kernel_bytes(examples_, paths(), dimension_, share_.ranks);
}

PathTask PathTasks::make(long seed) const {
  if (one_shot_)
    return one_shot_task(one_shot_->pools(), one_shot_->attention(seed),
                         {.examples = examples_,
                          .test_examples = test_examples_,
                          .seed = static_cast<std::uint64_t>(seed),
                          .share = share_});
  if (settings_.word("paths.task") == "surrogate") {
    SurrogateSettings of;
    of.heads = heads_.front();
    if (noise_) of.noise = *noise_;
    of.examples = examples_;
    of.test_examples = test_examples_;
    of.seeds = surrogate_seeds(seed);
    of.share = share_;
    return surrogate_task(of);
  }
  auto of = published_markov(heads_.back() == 2 ? MarkovVariant::four_paths : MarkovVariant::two_paths);
  if (noise_) of.noise.perpendicular = *noise_;
  of.examples = examples_;
  of.test_examples = test_examples_;
  of.seeds = markov_seeds(seed);
  of.share = share_;
  if (!draws_.empty())
    of.seeds = {.train = static_cast<std::uint32_t>(draws_[0]),
                .test = static_cast<std::uint32_t>(draws_[1]),
                .layer_1 = static_cast<std::uint32_t>(draws_[2]),
                .layer_2 = static_cast<std::uint32_t>(draws_[3])};
  return markov_task(of);
}

const PathTask& PathTasks::task_of(long seed) {
  auto& task = tasks_[seed];
  if (!task) task = std::make_unique<PathTask>(make(seed));
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
