#pragma once

// A reaction that is linear, for tests that need a known field.

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "model/parameters.hpp"

namespace fluxformer::test {

/// Weights of the reaction for which R(x) = rate * x exactly, by pairs of ReLUs: relu(x) - relu(-x) = x. Sets
/// rho = 1. Throws BadInput unless the activation is ReLU and ffn >= 2 width.
inline void set_linear_reaction(Parameters& parameters, double rate) {
  const auto& spec = parameters.spec;
  if (spec.activation != Activation::relu || spec.ffn < 2 * spec.width)
    throw BadInput("a linear reaction needs model.activation = relu and model.ffn >= 2 model.width");
  const Index d = spec.width, f = spec.ffn;
  for (int knot = parameters.layout.first_knot(); knot <= parameters.layout.last_knot(); ++knot) {
    const auto group = "layers/" + std::to_string(knot + 1) + "/";
    const auto w_1 = parameters.view(group + "W_1"), w_2 = parameters.view(group + "W_2");
    std::fill(w_1.begin(), w_1.end(), 0.0);
    std::fill(w_2.begin(), w_2.end(), 0.0);
    // Hidden unit 2j is relu(x_j), unit 2j + 1 is relu(-x_j); rate times their difference is rate x_j.
    for (Index j = 0; j < d; ++j) {
      w_1[2 * j * d + j] = 1;
      w_1[(2 * j + 1) * d + j] = -1;
      w_2[j * f + 2 * j] = rate;
      w_2[j * f + 2 * j + 1] = -rate;
    }
  }
  parameters.values[parameters.layout.rho()] = 1;
}

}  // namespace fluxformer::test
