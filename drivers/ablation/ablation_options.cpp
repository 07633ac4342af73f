#include "drivers/ablation/ablation_options.hpp"

#include <limits>
#include <utility>

#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

void declare_ablation(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "ablation.models",
           .fallback = std::vector<std::string>{"transformer", "pde"},
           .doc =
               "models to train, all with one depth cell per layer; model.knots and equation.kappa apply to "
               "the pde only",
           .choices = {"transformer", "pde"},
           .not_empty = true});
  declare({.name = "ablation.residual",
           .fallback = std::vector<std::string>{"on", "off"},
           .doc = "whether each sub-layer adds to the state (on) or replaces it (off)",
           .choices = {"on", "off"},
           .not_empty = true});
  declare({.name = "ablation.norm",
           .fallback = std::vector<std::string>{"none", "pre", "post"},
           .doc = "placements of LayerNorm",
           .choices = {"none", "pre", "post"},
           .not_empty = true});
  declare({.name = "ablation.seeds",
           .fallback = std::vector<long>{1, 2, 3},
           .doc = "seeds; each variant is trained once with each of them as model.seed and run.seed",
           .minimum = 0,
           .maximum = std::numeric_limits<int>::max(),
           .not_empty = true});
  declare(
      {.name = "ablation.diverged",
       .fallback = 10.0,
       .doc = "a training has diverged if a loss is not finite, or if from some epoch to the end most losses "
              "of each epoch exceed this multiple of the loss at zero logits (ln of the number of classes)",
       .minimum = 1});
  declare_model_options(options);
  declare_data_options(options);
  declare_training(options);
  declare(output_option("ablation.h5"));
  declare(overwrite_option());
  declare(seed_option("set by ablation.seeds"));
  declare(time_limit_option("wall time after which the run ends without a result; 0: none"));
}

}  // namespace fluxformer
