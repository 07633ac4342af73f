#include "drivers/paths/one_shot_options.hpp"

#include <string>
#include <utility>

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

}  // namespace fluxformer
