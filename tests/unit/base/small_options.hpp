#pragma once

// One option of every kind, for the tests of options.

#include <memory>

#include "base/options.hpp"

namespace fluxformer {

inline void declare_small(Options& options) {
  options.declare(
      {.name = "mesh.layers", .fallback = 12L, .doc = "Number of layers.", .minimum = 1, .maximum = 1000});
  options.declare({.name = "equation.kappa",
                   .fallback = 0.0,
                   .doc = "Diffusion over tokens.",
                   .unit = "token spacings^2 per unit time",
                   .minimum = 0});
  options.declare({.name = "equation.c",
                   .fallback = 1.0,
                   .doc = "Speed through depth.",
                   .minimum = 0,
                   .maximum = 10,
                   .above_minimum = true});
  options.declare({.name = "attention.kernel",
                   .fallback = "dot",
                   .doc = "How queries meet keys.",
                   .choices = {"dot", "l2"}});
  options.declare({.name = "attention.causal", .fallback = false, .doc = "Hides later tokens."});
  options.declare({.name = "output.file", .fallback = "", .doc = "Where to write."});
  options.declare({.name = "run.seed", .fallback = 1L, .doc = "Seed."});
}

inline std::shared_ptr<const Options> small_options() {
  return std::make_shared<const Options>(declare_small);
}

}  // namespace fluxformer
