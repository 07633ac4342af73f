#pragma once

// The parts of a layer that act token by token, written as simply as possible: loops in double, formula by
// formula, sharing nothing with the kernels they check. Rows are tokens, `width` numbers each.

#include <vector>

#include "operators/reaction/reaction.hpp"

namespace fluxformer::reference {

using Rows = std::vector<double>;

/// (x - mean) / sqrt(var + eps) * gain + bias per row; gain and bias of `width` numbers.
Rows layer_norm(const Rows& x, int width, const double* gain, const double* bias,
                double eps = layer_norm_eps);

/// x / |x| per row.
Rows project_to_sphere(const Rows& x, int width);

/// GELU (both forms) or ReLU of one number.
double activate(Activation activation, double x);

/// rho (W_2 g(W_1 N(u) + b_1) + b_2), N = LayerNorm or, without it, the identity.
Rows feed_forward(const Rows& u, int width, const ReactionSettings& settings,
                  const ReactionWeights<const double>& weights);

}  // namespace fluxformer::reference
