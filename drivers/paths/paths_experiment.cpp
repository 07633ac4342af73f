// `paths_theory`, `paths_sample` and `paths_prune`: the statistical mechanics of attention paths by theory,
// and beside it draws from the posterior, or trained networks that lose heads.

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/paths/chain_points.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/pruning_record.hpp"
#include "drivers/paths/theory_points.hpp"
#include "drivers/registry.hpp"
#include "drivers/study/study.hpp"
#include "io/hdf5/checker.hpp"
#include "io/layout.hpp"

namespace fluxformer {

namespace stored = paths::variables;
using namespace paths;

namespace {

void declare_samplers(Options& options) {
  options.declare("paths.samplers", std::vector<std::string>{"wishart", "hmc"},
                  "wishart: a random walk through the exact posterior of the order parameters, for widths "
                  "that are at least the number of paths; hmc: Hamiltonian Monte Carlo on all weights",
                  {.choices = {"wishart", "hmc"}, .not_empty = true});
  options.declare("paths.sampled_widths", std::vector<double>{},
                  "widths among paths.widths at which the posterior is sampled; empty: all of them",
                  {.minimum = 0, .maximum = 1e15, .above_minimum = true});
  options.declare("paths.chains", 4L, "number of chains of each sampler, shared out to the ranks",
                  {.minimum = 1, .maximum = 10000});
  options.declare("paths.samples", 1000L, "number of stored draws of each chain", {.minimum = 4});
  options.declare("paths.warm_up", 200L,
                  "number of draws before the stored ones, during which step sizes adapt", {.minimum = 0});
  options.declare("paths.leapfrog", 300L,
                  "hmc: leapfrog steps of a draw; the step size adapts, and the total length of these steps "
                  "should be about 1.5",
                  {.minimum = 1});
  options.declare("paths.walk", 50L, "wishart: steps of the walk between two draws", {.minimum = 1});
}

void declare_theory(Options& options) {
  options.declare("paths.examples", 100L,
                  "number P of training examples, on which the posterior is conditioned; must be even for "
                  "the markov task",
                  {.minimum = 2});
  options.declare("paths.test_examples", 1000L, "number of further examples, whose targets are predicted",
                  {.minimum = 2});
  options.declare("paths.widths", std::vector<double>{10, 30, 50, 100, 300, 500, 1000},
                  "widths N of all layers; the Gaussian process of infinite width is always computed as well",
                  {.minimum = 0, .maximum = 1e15, .above_minimum = true, .not_empty = true});
  options.declare("paths.temperatures", std::vector<double>{0.01}, "noise variances T of the targets",
                  {.minimum = 0, .maximum = 1e15, .above_minimum = true, .not_empty = true});
  options.declare("paths.components", 30L,
                  "number of principal components of the kernels whose overlap with the targets is stored",
                  {.minimum = 1});
}

void declare_paths_theory(Options& options) {
  declare_path_task(options);
  declare_theory(options);
  options.declare("paths.ranks_point", 1L,
                  "number of ranks that share each point of the theory, for kernels that do not fit into the "
                  "memory of one rank; must divide the number of ranks",
                  {.minimum = 1, .role = Role::free});
  declare_study_run(options, "paths.h5");
}

void declare_paths_sample(Options& options) {
  declare_samplers(options);
  declare_path_task(options);
  declare_theory(options);
  declare_study_run(options, "paths.h5");
}

void declare_paths_prune(Options& options) {
  declare_one_shot_task(options);
  options.declare("paths.attention", "",
                  "file written by paths_train, whose networks of the same seeds lose heads");
  declare_theory(options);
  options.declare("paths.random_orders", 20L,
                  "number of random orders in which heads are silenced, in addition to the orders by scores",
                  {.minimum = 0, .maximum = 10000});
  declare_study_run(options, "paths.h5");
}

/// Variables without those that come twice.
std::vector<io::Variable> joined(std::initializer_list<std::vector<io::Variable>> lists) {
  std::vector<io::Variable> all;
  for (const auto& more : lists)
    for (const auto& one : more)
      if (std::ranges::find(all, one.name, &io::Variable::name) == all.end()) all.push_back(one);
  return all;
}

/// The trained networks as points, one for each seed. The theory's scores are those of its smallest width at
/// the first temperature.
class PrunePoints {
 public:
  /// Heads are silenced in `random` random orders, too; the scores are those at `scores`. Borrows `tasks`.
  /// Throws BadInput, on every rank, unless the task has trained networks.
  PrunePoints(std::size_t random, PathTasks& tasks, const ScoresAt& scores);

  /// One place for each seed.
  std::vector<Place> places() const;
  /// Description in a line, for the start of a run.
  std::string describe() const;
  /// Adds the notes and axes of pruning.
  void begin(StudyRecord& record) const;
  /// Silences the heads of the network of a seed.
  void measure(const Place& place, Results& to);

 private:
  PathTasks& tasks_;
  ScoresAt scores_;
  std::size_t random_;
};

PrunePoints::PrunePoints(std::size_t random, PathTasks& tasks, const ScoresAt& scores)
    : tasks_(tasks), scores_(scores), random_(random) {
  if (tasks.trained(tasks.seeds().front()) == nullptr)
    throw BadInput("paths_prune needs trained networks: paths.attention, a file of paths_train");
}

std::vector<Place> PrunePoints::places() const {
  std::vector<Place> all;
  for (std::size_t s = 0; s < tasks_.seeds().size(); ++s)
    all.push_back({.group = stored::network_group,
                   .name = "trained network of seed " + std::to_string(tasks_.seeds()[s]),
                   .index = {{axes::seed.name, s}}});
  return all;
}

void PrunePoints::measure(const Place& place, Results& to) {
  const long seed = tasks_.seeds()[place.along(axes::seed)];
  const auto& heads = tasks_.heads();
  const auto& task = tasks_.task_of(seed);
  const auto& trained = *tasks_.trained(seed);
  const auto weights = LearnerWeights(trained.shape).input_weights(trained.weights);
  const auto order = tasks_.of(seed).solve(network_of_width(heads, scores_.width), scores_.temperature).order;
  const HeadWorth worth{
      .theory = head_scores(order.u.front(), heads),
      .entropies = mean_entropies(tasks_.attention_of(seed), tasks_.examples(), tasks_.tokens_of(seed)),
      .sensitivities = first_order_scores(task.train, weights, heads)};
  const auto curves = pruning_curves(
      worth, heads, static_cast<std::uint64_t>(seed), random_, [&](std::span<const HeadPlace> lost) {
        return accuracy(outputs(task.test.inputs, without_heads(weights, heads, lost)), task.test.targets);
      });
  put_pruning(curves, place.name, to);
}

std::string PrunePoints::describe() const {
  std::ostringstream text;
  text << "; heads of trained networks silenced in rising and falling order of scores at N = "
       << scores_.width << ", T = " << scores_.temperature << ", by two usual rules, and in " << random_
       << " random orders";
  return text.str();
}

void PrunePoints::begin(StudyRecord& record) const {
  add_pruning_axes(record, tasks_.heads(), random_, scores_);
}

/// Settings of the theory, and of the chains of the posterior or the networks that lose heads beside it.
struct AttentionPathsPlan {
  PathTaskPlan task;
  TheoryPlan theory;
  std::optional<SamplerPlan> sampler = {};
  std::optional<std::size_t> random_orders = {};  ///< in which heads are silenced
};

/// Points of the theory, and then chains if the posterior is sampled, or trained networks that are pruned.
class AttentionPaths final : public Study {
 public:
  /// Throws BadInput on this rank; `together`: the ranks that share a point.
  AttentionPaths(AttentionPathsPlan plan, Communicator together);
  /// Throws BadInput if kernels and chains do not fit into the memory. Collective.
  void require_memory_of_all(MPI_Comm comm) const;

  std::string describe() const override {
    return theory_.describe() + (chains_ ? chains_->describe() : "") + (pruned_ ? pruned_->describe() : "");
  }
  std::vector<Place> places() const override;
  int ranks_of_place() const override { return mpi::size(together_); }
  std::vector<Source> sources() const override { return tasks_.sources(); }
  std::vector<io::Variable> kept() const override {
    return chains_ ? chains_->kept() : std::vector<io::Variable>{};
  }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  std::string summary(const Findings& found) const override;

 private:
  Communicator together_;
  PathTasks tasks_;
  TheoryPoints theory_;
  std::optional<ChainPoints> chains_;
  std::optional<PrunePoints> pruned_;
};

AttentionPaths::AttentionPaths(AttentionPathsPlan plan, Communicator together)
    : together_(std::move(together)),
      tasks_(std::move(plan.task), together_),
      theory_(std::move(plan.theory), tasks_) {
  if (plan.sampler) chains_.emplace(std::move(*plan.sampler), tasks_, theory_);
  if (plan.random_orders)
    pruned_.emplace(*plan.random_orders, tasks_,
                    ScoresAt{theory_.widths().front(), theory_.temperatures().front()});
}

void AttentionPaths::require_memory_of_all(MPI_Comm comm) const {
  require_memory(comm, tasks_.kernel_bytes() * static_cast<double>(tasks_.seeds().size()),
                 "the kernels of " + std::to_string(tasks_.paths()) + " paths between " +
                     std::to_string(tasks_.examples()) + " examples, for " +
                     std::to_string(tasks_.seeds().size()) + " seed(s), on " +
                     std::to_string(ranks_of_place()) + " rank(s) a point,");
  require_memory(comm, chains_ ? chains_->bytes() : 0,
                 "the draws of paths.chains, paths.samples and paths.sampled_widths");
}

std::vector<Place> AttentionPaths::places() const {
  auto all = theory_.places();
  const auto further = chains_ ? chains_->places() : pruned_ ? pruned_->places() : std::vector<Place>{};
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

void AttentionPaths::begin(StudyRecord& record) {
  theory_.begin(record);
  if (chains_) chains_->begin(record);
  if (pruned_) pruned_->begin(record);
}

void AttentionPaths::measure(const Place& place, Results& to) {
  all_or_none(together_, [&] {
    if (place.group == theory_group) return theory_.measure(place, to);
    return chains_ ? chains_->measure(place, to) : pruned_->measure(place, to);
  });
}

bool AttentionPaths::conclude(const Findings& found, RunFrame&, StudyRecord& record) {
  theory_.conclude(found, record);
  std::vector<std::string> timed{theory_group};
  if (chains_) {
    chains_->conclude(found, record);
    timed.insert(timed.end(), chains_->samplers().begin(), chains_->samplers().end());
  }
  add_seconds(found, timed, record);
  return true;
}

std::string AttentionPaths::summary(const Findings& found) const {
  auto text = theory_.summary(found) + (chains_ ? chains_->summary(found) : "");
  for (std::size_t k = 0; k < found.count(); ++k)
    if (const auto& words = found.of(k).words; !words.empty()) text += "\n  " + words;
  return text;
}

/// Groups of `together` ranks that share a point: that of this rank. Collective; throws BadInput (agreed).
Communicator ranks_of_point(int together, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  if (ranks % together != 0)
    throw BadInput("paths.ranks_point = " + std::to_string(together) + ": must divide the number of ranks, " +
                   std::to_string(ranks));
  MPI_Comm mine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, rank / together, rank, &mine));
  return Communicator(mine);
}

/// Contents of a file with these coordinates, notes and measures beside those of the theory.
study::Contents with_theory(const std::vector<io::Variable>& coordinates,
                            const std::vector<io::Attribute>& notes,
                            const std::vector<io::Variable>& measures) {
  using namespace paths::variables;
  std::vector<io::Attribute> all{task, path_names, parts, further_sets, heads, dimension, train_examples};
  all.insert(all.end(), notes.begin(), notes.end());
  return {joined({theory_coordinates(), coordinates}),
          all,
          {},
          joined({theory_measures(), measures}),
          names::in(names::analysis, group)};
}

study::Contents contents_of_theory() {
  return with_theory({}, {}, {});
}

study::Contents contents_of_sample() {
  return with_theory(chain_coordinates(), {paths::variables::quantities}, chain_variables());
}

study::Contents contents_of_prune() {
  return with_theory(prune_coordinates(), prune_notes(), prune_measures());
}

/// True for a value of paths.attention that names a file.
bool is_file(const std::string& attention) {
  return !attention.empty() && attention != "random";
}

/// Settings in which the file of paths.attention, if there is one, decides the sizes of the network where they
/// are not given: the output must not hold their defaults, which a run that is repeated from it would ask for.
Settings with_sizes_of_file(Settings settings) {
  if (is_file(settings.word("paths.attention")))
    for (const char* key : {"paths.layers", "paths.heads", "paths.key"}) settings.leave_to_file(key);
  return settings;
}

/// Completes the entry of a study of the theory and of what `more` adds to its plan.
ExperimentEntry paths_entry(ExperimentEntry entry, study::Contents (*contents)(),
                            void (*more)(const Settings&, AttentionPathsPlan&)) {
  const auto make = [more](const Settings& settings, MPI_Comm comm) {
    const bool shared = settings.options()->find("paths.ranks_point") != nullptr;
    auto together = ranks_of_point(shared ? settings.count("paths.ranks_point") : 1, comm);
    if (const auto& file = settings.word("paths.attention"); is_file(file))
      io::read_on_trial_first(comm, file, "paths.attention = " + file);
    auto made = collectively(comm, [&] {
      AttentionPathsPlan plan{.task = path_task_plan_of(settings), .theory = theory_plan_of(settings)};
      more(settings, plan);
      return std::make_unique<AttentionPaths>(std::move(plan), std::move(together));
    });
    made->require_memory_of_all(comm);
    return made;
  };
  return study_entry(std::move(entry), contents, make, with_sizes_of_file);
}

}  // namespace

ExperimentEntry paths_theory_experiment() {
  return paths_entry(
      {.name = "paths_theory",
       .family = "paths",
       .sentence = "tells by theory what the paths of deep attention with frozen queries and keys weigh "
                   "at finite width",
       .cites = "docs/model.md; arXiv 2405.15926",
       .declare = declare_paths_theory,
       .former = "paths"},
      contents_of_theory, [](const Settings&, AttentionPathsPlan&) {});
}

ExperimentEntry paths_sample_experiment() {
  return paths_entry(
      {.name = "paths_sample",
       .family = "paths",
       .sentence = "draws from the posterior of deep attention with frozen queries and keys, beside the "
                   "theory",
       .cites = "docs/model.md; arXiv 2405.15926",
       .declare = declare_paths_sample,
       .former = "paths"},
      contents_of_sample,
      [](const Settings& settings, AttentionPathsPlan& plan) { plan.sampler = sampler_plan_of(settings); });
}

ExperimentEntry paths_prune_experiment() {
  return paths_entry(
      {.name = "paths_prune",
       .family = "paths",
       .sentence = "silences heads of trained networks of attention paths, one after another, beside the "
                   "theory",
       .cites = "docs/model.md; arXiv 2405.15926",
       .declare = declare_paths_prune,
       .former = "paths"},
      contents_of_prune, [](const Settings& settings, AttentionPathsPlan& plan) {
        plan.random_orders = static_cast<std::size_t>(settings.count("paths.random_orders"));
      });
}

}  // namespace fluxformer
