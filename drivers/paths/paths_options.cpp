#include "drivers/paths/paths_options.hpp"

#include <limits>
#include <string>
#include <utility>

#include "drivers/common/run_options.hpp"

namespace fluxformer {
void declare_one_shot(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.images",
           .fallback = std::string("omniglot"),
           .doc = "omniglot: handwritten characters, those of the test from other alphabets; digits: built "
                  "in, 2 to 5 for training, 6 and 7 for validation, 8 and 9 for the test",
           .choices = {"omniglot", "digits"}});
  declare({.name = "paths.foreign",
           .fallback = std::string("digits"),
           .doc = "images of another kind, of which 0 and 1 are tested, too: built-in digits, or mnist",
           .choices = {"digits", "mnist"}});
  declare({.name = "data.directory",
           .fallback = std::string(),
           .doc = "folder of the zip files of Omniglot and the IDX files of MNIST, or the parent folder of "
                  "omniglot and mnist",
           .role = Role::free});
  declare({.name = "paths.attention",
           .fallback = std::string("random"),
           .doc = "file of paths.study = train, whose queries and keys are used, of the same seeds; random: "
                  "they are drawn",
           .when = When{"paths.study", Not{"train"}}});
  declare({.name = "paths.layers",
           .fallback = 2L,
           .doc = "layers of a network that is trained, or whose attention is random",
           .minimum = 1,
           .maximum = 8});
  declare({.name = "paths.key",
           .fallback = 32L,
           .doc = "G, components of a query and of a key",
           .minimum = 1,
           .maximum = 4096});
}

void declare_path_training(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.width",
           .fallback = 128L,
           .doc = "N, of all layers of the network that is trained",
           .minimum = 1,
           .maximum = 1 << 16});
  declare({.name = "paths.steps",
           .fallback = 3000L,
           .doc = "steps of the training",
           .minimum = 1,
           .maximum = 1 << 30});
  declare({.name = "paths.batch",
           .fallback = 128L,
           .doc = "new examples in each step, shared out to the ranks",
           .minimum = 1});
  declare({.name = "paths.rate", .fallback = 3e-4, .doc = "learning rate of Adam", .minimum = 1e-12});
  declare({.name = "paths.decay",
           .fallback = 5e-5,
           .doc = "weights times this are added to the gradient",
           .minimum = 0});
  declare(
      {.name = "paths.judge_every",
       .fallback = 100L,
       .doc = "steps between two judgements on validation examples; the weights of the best one are stored",
       .minimum = 1,
       .maximum = 1 << 30});
  declare({.name = "paths.judged_examples",
           .fallback = 1000L,
           .doc = "validation examples, and test examples at the end",
           .minimum = 2});
}

namespace {

void declare_markov(Options& options) {
  options.declare(
      {.name = "paths.variant",
       .fallback = std::string("four_paths"),
       .doc = "four_paths: two heads in each layer, one of random weights; two_paths: two heads and one",
       .choices = {"four_paths", "two_paths"}});
  options.declare(
      {.name = "paths.draws",
       .fallback = std::vector<long>{},
       .doc = "seeds of training examples, test examples, heads of layer 1 and of layer 2 (published: 27, "
              "59, 147, 247), instead of s, s + 100, s + 200, s + 300; empty: those of paths.seeds",
       .minimum = 0,
       .maximum = std::numeric_limits<int>::max()});
}

void declare_samplers(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(
      {.name = "paths.samplers",
       .fallback = std::vector<std::string>{"wishart", "hmc"},
       .doc =
           "wishart: a random walk through the exact posterior of the order parameters, for widths from the "
           "number of paths on; hmc: Hamiltonian Monte Carlo on all weights",
       .choices = {"wishart", "hmc"},
       .not_empty = true});
  declare({.name = "paths.sampled_widths",
           .fallback = std::vector<double>{},
           .doc = "those of paths.widths that are sampled; empty: all of them",
           .minimum = 0,
           .maximum = 1e15,
           .above_minimum = true});
  declare({.name = "paths.chains",
           .fallback = 4L,
           .doc = "chains of each sampler; they are shared out to the ranks",
           .minimum = 1,
           .maximum = 10000});
  declare({.name = "paths.samples", .fallback = 1000L, .doc = "draws of each chain", .minimum = 4});
  declare({.name = "paths.warm_up",
           .fallback = 200L,
           .doc = "draws before them, in which steps adapt",
           .minimum = 0});
  declare(
      {.name = "paths.leapfrog",
       .fallback = 300L,
       .doc =
           "of hmc: leapfrog steps of a draw; their size adapts, and all of them together should be some 1.5 "
           "long",
       .minimum = 1});
  declare({.name = "paths.walk",
           .fallback = 50L,
           .doc = "of wishart: steps of the walk between two draws",
           .minimum = 1});
}

void declare_theory(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.examples",
           .fallback = 100L,
           .doc = "P, examples that the posterior knows; of markov an even number",
           .minimum = 2});
  declare({.name = "paths.test_examples",
           .fallback = 1000L,
           .doc = "further examples, whose targets are predicted",
           .minimum = 2});
  declare({.name = "paths.widths",
           .fallback = std::vector<double>{10, 30, 50, 100, 300, 500, 1000},
           .doc = "widths N of all layers; the Gaussian process of infinite width is always computed, too",
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
           .doc = "principal components of the kernels whose overlap with the targets is stored",
           .minimum = 1});
  declare({.name = "paths.ranks_point",
           .fallback = 1L,
           .doc = "ranks that share each point of the theory, for examples whose kernels one rank cannot "
                  "hold; must divide "
                  "the number of ranks",
           .minimum = 1,
           .when = When{"paths.study", "theory"},
           .role = Role::free});
}

}  // namespace

void declare_paths(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "paths.study",
           .fallback = std::string("theory"),
           .doc = "theory: order parameters and predictions in closed form, good for wide networks; sample: "
                  "draws from the posterior beside it; train: a network whose queries and keys are then "
                  "given to the others; prune: its heads are silenced, one after another",
           .choices = {"theory", "sample", "train", "prune"}});
  options.declare_when(When{"paths.study", "sample"}, declare_samplers);
  declare({.name = "paths.task",
           .fallback = std::string("markov"),
           .doc =
               "markov: hidden Markov chains that stay in their state or leave it; surrogate: which of two "
               "prototypes of random features is shown again; one_shot: the same with drawings of characters",
           .choices = {"markov", "surrogate", "one_shot"}});
  options.declare_when(When{"paths.task", "markov"}, declare_markov);
  options.declare_when(When{"paths.task", "one_shot"}, declare_one_shot);
  declare({.name = "paths.heads",
           .fallback = 4L,
           .doc = "heads in each layer; of surrogate one that is made for the task, the others random",
           .minimum = 1,
           .maximum = 32,
           .when = When{"paths.task", {"surrogate", "one_shot"}}});
  declare({.name = "paths.noise",
           .fallback = std::string("published"),
           .doc = "standard deviation of the noise: of markov outside of the plane of the two states "
                  "(published: 1 with four paths, 5 with two), of surrogate in the features, whose own is 1 "
                  "(published: 0.8)",
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
           .doc = "random orders in which heads are silenced, beside those by scores",
           .minimum = 0,
           .maximum = 10000,
           .when = When{"paths.study", "prune"}});
  declare({.name = "checkpoint.every",
           .fallback = 5.0,
           .doc = "wall time between checkpoints of the points that are finished; 0: only when stopped",
           .unit = "s",
           .minimum = 0,
           .role = Role::output});
  declare(restart_option());
  declare(seed_option("seed of the task, unless there are paths.seeds"));
  declare(output_option("paths.h5"));
  declare(overwrite_option());
  declare(time_limit_option());
}

}  // namespace fluxformer
