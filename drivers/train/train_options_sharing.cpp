// How ranks share a step of a training, beside mesh.ranks_depth and mesh.ranks_token.

#include "drivers/common/run_options.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

void declare_sharing(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare(
      {.name = "train.micro_batches",
       .fallback = 0L,
       .doc =
           "parts into which a group of ranks cuts its share of a batch: with stages of depth "
           "(mesh.ranks_depth), one stage works on a part while the others work on others; a rank keeps the "
           "activations of one part for each stage from its own on; 0: 4 for each stage, 1 without stages",
       .minimum = 0,
       .role = Role::free});
  declare({.name = "train.pipeline",
           .fallback = std::string("1f1b"),
           .doc = "order of the parts in a stage: one forward pass, one backward pass in turns, or all "
                  "forward passes "
                  "first, which keeps the activations of all parts",
           .choices = {"1f1b", "gpipe"},
           .role = Role::free});
  declare(memory_option());
}

}  // namespace fluxformer
