#pragma once

// The parameters of one reaction as a flat vector, so that gradients and differences can be taken of any.

#include <cmath>
#include <string>
#include <vector>

#include "operators/slab.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

/// The arrays that a network has beside W_1, W_2 and a gain.
struct ReactionShape {
  int width = 1, hidden = 1;
  bool gated = false;
  bool biases = true;  ///< false: also none of the norm
  NormSettings norm = {};
};

/// The parameters gain, bias, W_G, b_G, W_1, b_1, W_2, b_2, rho, one after the other; parts that the network does
/// not have are empty.
struct ReactionParameters {
  ReactionParameters(int width, int hidden, unsigned seed)
      : ReactionParameters(ReactionShape{width, hidden}, seed) {}
  ReactionParameters(const ReactionShape& with, unsigned seed) : shape(with) {
    const auto d = static_cast<std::size_t>(shape.width), f = static_cast<std::size_t>(shape.hidden);
    const auto if_there = [](bool there, std::size_t size) { return there ? size : 0; };
    begin = {0};
    for (const std::size_t size : {d, if_there(shape.biases, d), if_there(shape.gated, d * f),
                                   if_there(shape.gated && shape.biases, f), d * f, if_there(shape.biases, f),
                                   d * f, if_there(shape.biases, d), std::size_t{1}})
      begin.push_back(begin.back() + size);
    flat = random_vector(begin.back(), seed, 1 / std::sqrt(shape.width));
    for (std::size_t j = 0; j < d; ++j) flat[j] += 1;  // gain
    flat.back() = 0.8;                                 // rho
  }
  /// Views of the parts; P is T, const T, double ...
  template <class P>
  ReactionWeights<P> view(P* numbers, Coefficient<P>* rho) const {
    const auto array = [&](std::size_t part) -> P* { return has(part) ? numbers + begin[part] : nullptr; };
    return {.gain = array(0),
            .bias = array(1),
            .w_g = array(2),
            .b_g = array(3),
            .w_1 = array(4),
            .b_1 = array(5),
            .w_2 = array(6),
            .b_2 = array(7),
            .rho = rho,
            .norm = shape.norm};
  }
  static std::vector<std::string> names() {
    return {"gain", "bias", "W_G", "b_G", "W_1", "b_1", "W_2", "b_2", "rho"};
  }
  bool has(std::size_t part) const { return begin[part] < begin[part + 1]; }
  /// One part of a vector like `flat`.
  std::vector<double> part(const std::vector<double>& x, std::size_t which) const {
    return {x.begin() + static_cast<std::ptrdiff_t>(begin[which]),
            x.begin() + static_cast<std::ptrdiff_t>(begin[which + 1])};
  }
  /// The numbers of a part of `flat`, to be set.
  double* at(std::size_t which) { return flat.data() + begin[which]; }

  ReactionShape shape;
  std::vector<std::size_t> begin;  ///< first number of each part, and the end
  std::vector<double> flat;
};

}  // namespace fluxformer::test
