#pragma once

// One key of every kind, for the tests of options.

#include "base/options.hpp"

namespace fluxformer {

inline Schema small_schema() {
  Schema schema;
  schema.declare(
      {.name = "mesh.layers", .fallback = 12L, .doc = "Number of layers.", .minimum = 1, .maximum = 1000});
  schema.declare({.name = "equation.kappa",
                  .fallback = 0.0,
                  .doc = "Diffusion over tokens.",
                  .unit = "token spacings^2 per unit time",
                  .minimum = 0});
  schema.declare({.name = "equation.c",
                  .fallback = 1.0,
                  .doc = "Speed through depth.",
                  .minimum = 0,
                  .maximum = 10,
                  .above_minimum = true});
  schema.declare({.name = "attention.kernel",
                  .fallback = "dot",
                  .doc = "How queries meet keys.",
                  .choices = {"dot", "l2"}});
  schema.declare({.name = "attention.causal", .fallback = false, .doc = "Hides later tokens."});
  schema.declare({.name = "output.file", .fallback = "", .doc = "Where to write."});
  schema.declare({.name = "run.seed", .fallback = 1L, .doc = "Seed."});
  return schema;
}

}  // namespace fluxformer
