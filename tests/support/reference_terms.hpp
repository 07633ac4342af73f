#pragma once

// A second, slow and simple implementation of every term of the equation, directly from the formulas of
// docs/model.md: whole lattice on one rank, full n x n kernels, loops over everything. The reference for the
// operators.
//
// A slab here is the whole token lattice of one depth cell, [token][sample][channel].

#include <vector>

#include "operators/attention/attention.hpp"
#include "operators/reaction/reaction.hpp"
#include "operators/slab.hpp"

namespace fluxformer::test::naive {

/// A token lattice without ranks.
struct Tokens {
  int x = 1, y = 1;
  int samples = 1, width = 1;
  bool periodic = false;
  TokenMask mask = {};
  int count() const { return x * y; }
  std::size_t at(int token, int sample, int channel) const {
    return static_cast<std::size_t>((token * samples + sample) * width + channel);
  }
  std::size_t size() const { return static_cast<std::size_t>(count() * samples * width); }
};

using Slab = std::vector<double>;
using Weights = LayerWeights<const double>;

Slab token_diffusion(const Tokens& tokens, const Weights& weights, const Slab& u);
/// By rows of the lattice; zero without nu.
Slab token_transport(const Tokens& tokens, const Weights& weights, const Slab& u);
Slab attention(const Tokens& tokens, const AttentionSettings& settings, const Weights& weights,
               const Slab& u);
Slab reaction(const Tokens& tokens, const ReactionSettings& settings, const Weights& weights, const Slab& u);

/// Slabs 0 (inflow) .. M in, the term in slabs 1 .. M out; slab 0 of the result is zero.
std::vector<Slab> depth_transport(double speed, double spacing, int order, const std::vector<Slab>& u);
std::vector<Slab> depth_diffusion(double epsilon, double spacing, const std::vector<Slab>& u);

}  // namespace fluxformer::test::naive
