#include "drivers/paths/pruning_options.hpp"

#include <string>
#include <utility>

#include "drivers/compare/compare_options.hpp"

namespace fluxformer {

void declare_pruning(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare_compared(options);
  declare({.name = "pruning.examples",
           .fallback = 400L,
           .doc =
               "P, further samples by which heads are judged; their classes are split in two halves for the "
               "theory of attention paths",
           .unit = "samples",
           .minimum = 4});
  declare({.name = "pruning.width",
           .fallback = 10.0,
           .doc = "width N of the theory whose order parameters give the scores",
           .minimum = 1e-6});
  declare({.name = "pruning.temperature",
           .fallback = 0.5,
           .doc = "noise variance T of its targets",
           .minimum = 1e-12});
  declare(
      {.name = "pruning.most_paths",
       .fallback = 64L,
       .doc = "heads of all layers multiplied, at most: the theory's cost grows with the square of the paths",
       .minimum = 1});
  declare({.name = "pruning.random_orders",
           .fallback = 10L,
           .doc = "random orders in which heads are silenced, beside those by scores",
           .minimum = 0,
           .maximum = 1000});
  declare_compare_run(options, "pruning.h5");
}

}  // namespace fluxformer
