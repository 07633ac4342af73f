#include "drivers/scaling/scaling_options.hpp"

#include <utility>

#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/evolve/evolve_options.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

void declare_scaling(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "scaling.study",
           .fallback = std::string(),
           .doc = "name of the study in tables and figures; empty: the workload"});
  declare({.name = "scaling.workload",
           .fallback = std::string("evolve"),
           .doc = "which steps are timed: time steps of evolve, or training steps of train",
           .choices = {"evolve", "train"}});
  declare({.name = "scaling.mode",
           .fallback = std::string("strong"),
           .doc = "strong: the problem of the deck is split over all ranks; weak: it is the problem per rank "
                  "and grows along scaling.over",
           .choices = {"strong", "weak"}});
  declare({.name = "scaling.over",
           .fallback = std::string("depth"),
           .doc = "what is split over the ranks: depth (evolve), tokens, or samples (train); "
                  "mesh.ranks_depth and mesh.ranks_token take precedence if given",
           .choices = {"depth", "tokens", "samples"}});
  declare({.name = "scaling.warm_up",
           .fallback = 2L,
           .doc = "untimed steps before the first repetition",
           .unit = "steps",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.steps",
           .fallback = 5L,
           .doc = "timed steps per repetition",
           .unit = "steps",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.repetitions",
           .fallback = 5L,
           .doc = "repetitions; each ends with a checkpoint, which is timed separately",
           .minimum = 1,
           .role = Role::free});
  declare({.name = "scaling.machine",
           .fallback = true,
           .doc = "also measure the machine: matrix products, messages, sums over ranks (a few seconds)",
           .role = Role::free});
  declare_model_options(options);
  declare_data_options(options);
  options.declare_when(When{"scaling.workload", "evolve"}, declare_evolution);
  options.declare_when(When{"scaling.workload", "train"}, declare_training);
  declare(output_option("scaling.h5"));
  declare(overwrite_option());
  declare(seed_option("seed of the built-in data, of noise and random starts, of the order of samples"));
  declare(time_limit_option("wall time after which the run ends without a result; 0: none"));
}

}  // namespace fluxformer
