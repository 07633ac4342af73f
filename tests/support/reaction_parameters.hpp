#pragma once

// The parameters of one reaction as a flat vector, so that gradients and differences can be taken of any.

#include <cmath>
#include <string>
#include <vector>

#include "operators/slab.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

/// The parameters gain, bias, W_1, b_1, W_2, b_2, rho, one after the other.
struct ReactionParameters {
  ReactionParameters(int width, int hidden, unsigned seed)
      : d(static_cast<std::size_t>(width)), f(static_cast<std::size_t>(hidden)) {
    const double spread = 1 / std::sqrt(width);
    flat = random_vector(3 * d + 2 * d * f + f + 1, seed, spread);
    for (std::size_t j = 0; j < d; ++j) flat[j] += 1;  // gain
    flat.back() = 0.8;                                 // rho
  }
  /// Views of the parts; P is T, const T, double ...
  template <class P>
  ReactionWeights<P> view(P* begin, Coefficient<P>* rho) const {
    P* w_1 = begin + 2 * d;
    P* w_2 = w_1 + d * f + f;
    return {begin, begin + d, w_1, w_1 + d * f, w_2, w_2 + d * f, rho};
  }
  static std::vector<std::string> names() { return {"gain", "bias", "W_1", "b_1", "W_2", "b_2", "rho"}; }
  /// First number of each part, and the end.
  std::vector<std::size_t> offsets() const {
    return {
        0,          d, 2 * d, 2 * d + d * f, 2 * d + d * f + f, 2 * d + 2 * d * f + f, 3 * d + 2 * d * f + f,
        flat.size()};
  }
  /// One part of a vector like `flat`.
  std::vector<double> part(const std::vector<double>& x, std::size_t which) const {
    const auto begin = offsets();
    return {x.begin() + static_cast<std::ptrdiff_t>(begin[which]),
            x.begin() + static_cast<std::ptrdiff_t>(begin[which + 1])};
  }
  std::size_t d, f;
  std::vector<double> flat;
};

}  // namespace fluxformer::test
