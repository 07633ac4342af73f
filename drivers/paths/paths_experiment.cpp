#include "drivers/paths/paths_experiment.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "analysis/paths/path_variables.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/memory.hpp"
#include "base/mpi.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/paths/chain_points.hpp"
#include "drivers/paths/path_tasks.hpp"
#include "drivers/paths/path_training.hpp"
#include "drivers/paths/prune_points.hpp"
#include "drivers/paths/pruning_record.hpp"
#include "drivers/paths/theory_points.hpp"
#include "drivers/study/study.hpp"

namespace fluxformer {
namespace {

void declare_one_shot(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.images",
           .fallback = std::string("omniglot"),
           .doc = "omniglot: handwritten characters, with test characters from other alphabets; digits: the "
                  "built-in digits, 2 to 5 for training, 6 and 7 for validation, 8 and 9 for the test",
           .choices = {"omniglot", "digits"}});
  declare({.name = "paths.foreign",
           .fallback = std::string("digits"),
           .doc = "images of another kind, whose classes 0 and 1 are also tested: built-in digits, or mnist",
           .choices = {"digits", "mnist"}});
  declare({.name = "data.directory",
           .fallback = std::string(),
           .doc = "folder of the zip files of Omniglot and the IDX files of MNIST, or the parent folder of "
                  "omniglot and mnist",
           .role = Role::free});
  declare({.name = "paths.attention",
           .fallback = std::string("random"),
           .doc = "file written by paths.study = train, whose queries and keys are used for the same seeds; "
                  "random: queries and keys are drawn",
           .when = When{"paths.study", Not{"train"}}});
  declare({.name = "paths.layers",
           .fallback = 2L,
           .doc = "number of layers of a network that is trained, or whose attention is random",
           .minimum = 1,
           .maximum = 8});
  declare({.name = "paths.key",
           .fallback = 32L,
           .doc = "number of components G of a query and of a key",
           .minimum = 1,
           .maximum = 4096});
}

void declare_path_training(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.width",
           .fallback = 128L,
           .doc = "width N of all layers of the trained network",
           .minimum = 1,
           .maximum = 1 << 16});
  declare({.name = "paths.steps",
           .fallback = 3000L,
           .doc = "number of training steps",
           .minimum = 1,
           .maximum = 1 << 30});
  declare({.name = "paths.batch",
           .fallback = 128L,
           .doc = "number of new examples in each step, shared by the ranks",
           .minimum = 1});
  declare({.name = "paths.rate", .fallback = 3e-4, .doc = "learning rate of Adam", .minimum = 1e-12});
  declare({.name = "paths.decay",
           .fallback = 5e-5,
           .doc = "weight decay: this multiple of the weights is added to the gradient",
           .minimum = 0});
  declare(
      {.name = "paths.judge_every",
       .fallback = 100L,
       .doc = "steps between two evaluations on validation examples; the weights of the best one are stored",
       .minimum = 1,
       .maximum = 1 << 30});
  declare({.name = "paths.judged_examples",
           .fallback = 1000L,
           .doc = "number of validation examples, and of test examples at the end",
           .minimum = 2});
}

void declare_markov(Options& options) {
  options.declare({.name = "paths.variant",
                   .fallback = std::string("four_paths"),
                   .doc = "four_paths: two heads in each layer, one of which has random weights; two_paths: "
                          "two heads in the first layer and one in the second",
                   .choices = {"four_paths", "two_paths"}});
  options.declare({.name = "paths.draws",
                   .fallback = std::vector<long>{},
                   .doc = "seeds of the training examples, of the test examples, of the heads of layer 1 and "
                          "of those of layer 2 (published: 27, 59, 147, 247), instead of s, s + 100, s + "
                          "200, s + 300 for each seed s of paths.seeds; empty: those of paths.seeds",
                   .minimum = 0,
                   .maximum = std::numeric_limits<int>::max()});
}

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
  declare({.name = "paths.ranks_point",
           .fallback = 1L,
           .doc = "number of ranks that share each point of the theory, for kernels that do not fit into the "
                  "memory of one rank; must divide the number of ranks",
           .minimum = 1,
           .when = When{"paths.study", "theory"},
           .role = Role::free});
}

}  // namespace

void declare_paths(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(
      {.name = "paths.study",
       .fallback = std::string("theory"),
       .doc = "theory: order parameters and predictions in closed form, good for wide networks; sample: the "
              "theory and draws from the posterior; train: trains a network whose queries and keys the other "
              "studies can use; prune: silences the heads of trained networks, one after another",
       .choices = {"theory", "sample", "train", "prune"}});
  options.declare_when(When{"paths.study", "sample"}, declare_samplers);
  declare({.name = "paths.task",
           .fallback = std::string("markov"),
           .doc = "markov: tell hidden Markov chains that stay in their state from those that leave it; "
                  "surrogate: tell which of two prototypes of random features is shown again; one_shot: the "
                  "same with drawings of characters",
           .choices = {"markov", "surrogate", "one_shot"}});
  options.declare_when(When{"paths.task", "markov"}, declare_markov);
  options.declare_when(When{"paths.task", "one_shot"}, declare_one_shot);
  declare({.name = "paths.heads",
           .fallback = 4L,
           .doc = "number of heads in each layer; for the surrogate task one head is made for the task, and "
                  "the others are random",
           .minimum = 1,
           .maximum = 32,
           .when = When{"paths.task", {"surrogate", "one_shot"}}});
  declare({.name = "paths.noise",
           .fallback = std::string("published"),
           .doc = "standard deviation of the noise: for markov outside the plane of the two states "
                  "(published: 1 with four paths, 5 with two), for surrogate in the features, whose own "
                  "standard deviation is 1 (published: 0.8)",
           .when = When{"paths.task", {"markov", "surrogate"}}});
  declare({.name = "paths.seeds",
           .fallback = std::vector<long>{},
           .doc = "seeds of data and random heads, e.g. 1, 2, 3; empty: run.seed alone",
           .minimum = 0,
           .maximum = std::numeric_limits<int>::max()});
  options.declare_when(When{"paths.study", Not{"train"}}, declare_theory);
  options.declare_when(When{"paths.study", "train"}, declare_path_training);
  declare({.name = "paths.random_orders",
           .fallback = 20L,
           .doc = "number of random orders in which heads are silenced, in addition to the orders by scores",
           .minimum = 0,
           .maximum = 10000,
           .when = When{"paths.study", "prune"}});
  declare(points_option());
  declare(restart_option());
  declare(seed_option("seed of the task, unless there are paths.seeds"));
  declare(output_option("paths.h5"));
  declare(overwrite_option());
  declare(time_limit_option());
}

namespace {

/// Appends variables whose names are not in the list yet.
void add_new(std::vector<io::Variable>& to, const std::vector<io::Variable>& more) {
  for (const auto& one : more)
    if (std::ranges::find(to, one.name, &io::Variable::name) == to.end()) to.push_back(one);
}

std::vector<io::Variable> path_measures() {
  std::vector<io::Variable> all;
  for (const auto& more : {theory_measures(), chain_variables(), learner_variables(), prune_measures()})
    add_new(all, more);
  return all;
}

/// Points of the theory, and then chains if the posterior is sampled, or trained networks that are pruned.
class AttentionPaths final : public Study {
 public:
  /// Throws BadInput on every rank; `together`: the ranks that share a point.
  AttentionPaths(const Settings& settings, Communicator together);
  /// Throws BadInput if kernels and chains do not fit into the memory. Collective.
  void require_memory_of_all(MPI_Comm comm) const;

  std::string describe() const override {
    return theory_.describe() + (chains_ ? chains_->describe() : "") + (pruned_ ? pruned_->describe() : "");
  }
  std::vector<Place> places() const override;
  int ranks_of_place() const override { return mpi::size(together_); }
  /// The file of paths.attention.
  std::vector<Source> sources() const override;
  std::vector<io::Variable> measures() const override { return path_measures(); }
  std::vector<io::Variable> kept() const override {
    return chains_ ? chains_->kept() : std::vector<io::Variable>{};
  }
  void begin(StudyRecord& record) override;
  void measure(const Place& place, Results& to) override;
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override;
  std::string summary(const Findings& found) const override;

 private:
  Communicator together_;
  std::string attention_;  // "paths.attention = FILE" of a one-shot task
  PathTasks tasks_;
  TheoryPoints theory_;
  std::optional<ChainPoints> chains_;
  std::optional<PrunePoints> pruned_;
};

AttentionPaths::AttentionPaths(const Settings& settings, Communicator together)
    : together_(std::move(together)), tasks_(settings, together_), theory_(settings, tasks_) {
  if (settings.word("paths.task") == "one_shot")
    attention_ = "paths.attention = " + settings.word("paths.attention");
  if (settings.word("paths.study") == "sample") chains_.emplace(settings, tasks_, theory_);
  if (settings.word("paths.study") == "prune")
    pruned_.emplace(settings, tasks_, theory_.widths().front(), theory_.temperatures().front());
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

std::vector<Study::Source> AttentionPaths::sources() const {
  if (attention_.empty()) return {};
  return {{.called = attention_, .digest = tasks_.attention_digest()}};
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

/// Ranks that share a point with this one. Collective.
Communicator ranks_of_point(const Settings& settings, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const int together = settings.word("paths.study") == "theory" ? settings.count("paths.ranks_point") : 1;
  if (ranks % together != 0)
    throw BadInput("paths.ranks_point = " + std::to_string(together) + ": must divide the number of ranks, " +
                   std::to_string(ranks));
  MPI_Comm mine = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, rank / together, rank, &mine));
  return Communicator(mine);
}

}  // namespace

void describe_paths(io::Description& description) {
  using namespace paths::variables;
  std::vector<io::Variable> coordinates;
  for (const auto& more :
       {theory_coordinates(), chain_coordinates(), learner_coordinates(), prune_coordinates()})
    add_new(coordinates, more);
  auto notes = prune_notes();
  notes.insert(notes.end(), {task, path_names, parts, further_sets, heads, dimension, train_examples,
                             quantities, images, judged_sets});
  study::describe(description, "paths", {coordinates, notes, {}, path_measures()});
}

std::unique_ptr<Experiment> make_paths(const Settings& settings, const RunContext& context) {
  if (settings.word("paths.study") == "train") return make_path_training(settings, context);
  return make_study(settings, context, [](const Settings& s, MPI_Comm comm) {
    auto together = ranks_of_point(s, comm);
    auto made = collectively(comm, [&] { return std::make_unique<AttentionPaths>(s, std::move(together)); });
    made->require_memory_of_all(comm);
    return made;
  });
}

}  // namespace fluxformer
