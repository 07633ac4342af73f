#include "drivers/ablation/ablation_options.hpp"

#include <utility>

#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/run_options.hpp"
#include "drivers/train/train_options.hpp"

namespace fluxformer {

void declare_ablation(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "ablation.models",
           .fallback = std::string("transformer, pde"),
           .doc = "what is trained: transformer, pde; all on one depth cell per layer; model.knots and "
                  "equation.kappa are "
                  "for the pde alone"});
  declare({.name = "ablation.residual",
           .fallback = std::string("on, off"),
           .doc = "whether each sub-layer adds to the state or replaces it: on, off"});
  declare({.name = "ablation.norm",
           .fallback = std::string("none, pre, post"),
           .doc = "where LayerNorm stands: none, pre, post"});
  declare({.name = "ablation.seeds",
           .fallback = std::string("1, 2, 3"),
           .doc = "each variant is trained once for each of these, which are its model.seed and run.seed"});
  declare({.name = "ablation.diverged",
           .fallback = 10.0,
           .doc = "a training has diverged when to its end most losses of each epoch are above this multiple "
                  "of that of logits 0 (ln of the number of classes), or when one is not finite",
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
