#include <string>
#include <utility>

#include "drivers/train/train_options.hpp"

namespace fluxformer {

void declare_minimised(Options& options) {
  const auto declare = [&](Option option) { options.declare(std::move(option)); };
  declare({.name = "train.loss",
           .fallback = std::string("cross_entropy"),
           .doc = "loss function: cross entropy, or the mean squared distance of logits to the class",
           .choices = {"cross_entropy", "mean_squared_error"}});
  declare({.name = "train.label_smoothing",
           .fallback = 0.0,
           .doc = "label smoothing: fraction of the label that is spread over all classes",
           .minimum = 0,
           .maximum = 0.9});
  declare({.name = "train.smoothness",
           .fallback = 0.0,
           .doc = "strength of the penalty on the change of the weights with depth, between knots or from "
                  "layer to layer",
           .minimum = 0});
  declare({.name = "train.coefficients",
           .fallback = std::string("auto"),
           .doc = "also train kappa (if it starts > 0), alpha and rho; auto: for a pde",
           .choices = {"auto", "yes", "no"}});
}

}  // namespace fluxformer
