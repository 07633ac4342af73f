#include "drivers/paths/paths_experiment.hpp"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/paths/chain_points.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/prune_points.hpp"
#include "drivers/paths/pruning_record.hpp"
#include "drivers/paths/theory_points.hpp"
#include "drivers/study/study.hpp"
#include "io/layout.hpp"

namespace fluxformer {
namespace {

void declare_samplers(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.samplers",
           .fallback = std::vector<std::string>{"wishart", "hmc"},
           .doc = "wishart: a random walk through the exact posterior of the order parameters, for widths "
                  "that are at least the number of paths; hmc: Hamiltonian Monte Carlo on all weights",
           .choices = {"wishart", "hmc"},
           .not_empty = true});
  declare({.name = "paths.sampled_widths",
           .fallback = std::vector<double>{},
           .doc = "widths among paths.widths at which the posterior is sampled; empty: all of them",
           .minimum = 0,
           .maximum = 1e15,
           .above_minimum = true});
  declare({.name = "paths.chains",
           .fallback = 4L,
           .doc = "number of chains of each sampler, shared out to the ranks",
           .minimum = 1,
           .maximum = 10000});
  declare({.name = "paths.samples",
           .fallback = 1000L,
           .doc = "number of stored draws of each chain",
           .minimum = 4});
  declare({.name = "paths.warm_up",
           .fallback = 200L,
           .doc = "number of draws before the stored ones, during which step sizes adapt",
           .minimum = 0});
  declare({.name = "paths.leapfrog",
           .fallback = 300L,
           .doc = "hmc: leapfrog steps of a draw; the step size adapts, and the total length of these steps "
                  "should be about 1.5",
           .minimum = 1});
  declare({.name = "paths.walk",
           .fallback = 50L,
           .doc = "wishart: steps of the walk between two draws",
           .minimum = 1});
}

void declare_theory(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.examples",
           .fallback = 100L,
           .doc = "number P of training examples, on which the posterior is conditioned; must be even for "
                  "the markov task",
           .minimum = 2});
  declare({.name = "paths.test_examples",
           .fallback = 1000L,
           .doc = "number of further examples, whose targets are predicted",
           .minimum = 2});
  declare({.name = "paths.widths",
           .fallback = std::vector<double>{10, 30, 50, 100, 300, 500, 1000},
           .doc = "widths N of all layers; the Gaussian process of infinite width is always computed as well",
           .minimum = 0,
           .maximum = 1e15,
           .above_minimum = true,
           .not_empty = true});
  declare({.name = "paths.temperatures",
           .fallback = std::vector<double>{0.01},
           .doc = "noise variances T of the targets",
           .minimum = 0,
           .maximum = 1e15,
           .above_minimum = true,
           .not_empty = true});
  declare({.name = "paths.components",
           .fallback = 30L,
           .doc = "number of principal components of the kernels whose overlap with the targets is stored",
           .minimum = 1});
}

}  // namespace

void declare_paths_theory(Options& options) {
  declare_path_task(options);
  declare_theory(options);
  options.declare({.name = "paths.ranks_point",
                   .fallback = 1L,
                   .doc = "number of ranks that share each point of the theory, for kernels that do not fit "
                          "into the memory of one rank; must divide the number of ranks",
                   .minimum = 1,
                   .role = Role::free});
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
  options.declare({.name = "paths.attention",
                   .fallback = std::string(),
                   .doc = "file written by paths_train, whose networks of the same seeds lose heads"});
  declare_theory(options);
  options.declare(
      {.name = "paths.random_orders",
       .fallback = 20L,
       .doc = "number of random orders in which heads are silenced, in addition to the orders by scores",
       .minimum = 0,
       .maximum = 10000});
  declare_study_run(options, "paths.h5");
}

namespace {

/// Variables without those that come twice.
std::vector<io::Variable> joined(std::initializer_list<std::vector<io::Variable>> lists) {
  std::vector<io::Variable> all;
  for (const auto& more : lists)
    for (const auto& one : more)
      if (std::ranges::find(all, one.name, &io::Variable::name) == all.end()) all.push_back(one);
  return all;
}

/// Settings of the theory, and of the chains of the posterior or the networks that lose heads beside it.
struct AttentionPathsPlan {
  PathTaskPlan task;
  TheoryPlan theory;
  std::optional<SamplerPlan> sampler = {};
  std::optional<std::size_t> random_orders = {};  ///< in which heads are silenced
};

AttentionPathsPlan common_paths_plan_of(const Settings& settings) {
  return {.task = path_task_plan_of(settings), .theory = theory_plan_of(settings)};
}

/// Points of the theory, and then chains if the posterior is sampled, or trained networks that are pruned.
class AttentionPaths final : public Study {
 public:
  /// Throws BadInput on this rank; `together`: the ranks that share a point.
  AttentionPaths(AttentionPathsPlan plan, Communicator together);
  /// Throws BadInput if kernels and chains do not fit into the memory. Collective.
  void require_memory_of_all(MPI_Comm comm) const;

  std::string root() const override { return names::in(names::analysis, paths::variables::group); }
  std::string describe() const override {
    return theory_.describe() + (chains_ ? chains_->describe() : "") + (pruned_ ? pruned_->describe() : "");
  }
  std::vector<Place> places() const override;
  int ranks_of_place() const override { return mpi::size(together_); }
  std::vector<Source> sources() const override { return tasks_.sources(); }
  std::vector<io::Variable> measures() const override {
    return chains_   ? joined({theory_measures(), chain_variables()})
           : pruned_ ? joined({theory_measures(), prune_measures()})
                     : theory_measures();
  }
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

/// Makes the study of `plan()`, which may throw BadInput on this rank alone. Collective; throws BadInput (agreed).
std::unique_ptr<Study> attention_paths(MPI_Comm comm, int ranks_point,
                                       const std::function<AttentionPathsPlan()>& plan) {
  auto together = ranks_of_point(ranks_point, comm);
  auto made =
      collectively(comm, [&] { return std::make_unique<AttentionPaths>(plan(), std::move(together)); });
  made->require_memory_of_all(comm);
  return made;
}

/// Describes files with these coordinates and measures beside those of the theory.
void describe_with_theory(io::Description& description, const std::vector<io::Variable>& coordinates,
                          const std::vector<io::Attribute>& notes,
                          const std::vector<io::Variable>& measures) {
  using namespace paths::variables;
  std::vector<io::Attribute> all{task, path_names, parts, further_sets, heads, dimension, train_examples};
  all.insert(all.end(), notes.begin(), notes.end());
  study::describe(
      description, group,
      {joined({theory_coordinates(), coordinates}), all, {}, joined({theory_measures(), measures})});
}

}  // namespace

void describe_paths_theory(io::Description& description) {
  describe_with_theory(description, {}, {}, {});
}

void describe_paths_sample(io::Description& description) {
  describe_with_theory(description, chain_coordinates(), {paths::variables::quantities}, chain_variables());
}

void describe_paths_prune(io::Description& description) {
  describe_with_theory(description, prune_coordinates(), prune_notes(), prune_measures());
}

namespace {

/// Settings in which the file of paths.attention, if there is one, decides the sizes of the network where they
/// are not given: the output must not hold their defaults, which a run that is repeated from it would ask for.
Settings with_sizes_of_file(Settings settings) {
  if (const auto& file = settings.word("paths.attention"); !file.empty() && file != "random")
    for (const char* key : {"paths.layers", "paths.heads", "paths.key"}) settings.leave_to_file(key);
  return settings;
}

}  // namespace

std::unique_ptr<Experiment> make_paths_theory(const Settings& settings, const RunContext& context) {
  return make_study(with_sizes_of_file(settings), context, [](const Settings& s, MPI_Comm comm) {
    return attention_paths(comm, s.count("paths.ranks_point"), [&] { return common_paths_plan_of(s); });
  });
}

std::unique_ptr<Experiment> make_paths_sample(const Settings& settings, const RunContext& context) {
  return make_study(with_sizes_of_file(settings), context, [](const Settings& s, MPI_Comm comm) {
    return attention_paths(comm, 1, [&] {
      auto plan = common_paths_plan_of(s);
      plan.sampler = sampler_plan_of(s);
      return plan;
    });
  });
}

std::unique_ptr<Experiment> make_paths_prune(const Settings& settings, const RunContext& context) {
  return make_study(with_sizes_of_file(settings), context, [](const Settings& s, MPI_Comm comm) {
    return attention_paths(comm, 1, [&] {
      auto plan = common_paths_plan_of(s);
      plan.random_orders = static_cast<std::size_t>(s.count("paths.random_orders"));
      return plan;
    });
  });
}

}  // namespace fluxformer
