#pragma once

// The parts of a layer that act token by token, written as simply as possible: loops in double, formula by
// formula, sharing nothing with the kernels they check. Rows are tokens, `width` numbers each.

#include <vector>

#include "operators/reaction/reaction.hpp"

namespace fluxformer::reference {

using Rows = std::vector<double>;

/// (x - mean) / sqrt(var + eps) * gain + bias per row; gain and bias of `width` numbers. The bias may be null.
Rows layer_norm(const Rows& x, int width, const double* gain, const double* bias,
                double eps = layer_norm_eps);

/// x / sqrt(mean(x^2) + eps) * gain + bias per row; the bias may be null.
Rows rms_norm(const Rows& x, int width, const double* gain, const double* bias, double eps);

/// One of these two.
Rows normalised(const Rows& x, int width, const NormSettings& norm, const double* gain, const double* bias);

/// x / |x| per row.
Rows project_to_sphere(const Rows& x, int width);

/// GELU (both forms), ReLU or SiLU of one number.
double activate(Activation activation, double x);

/// rho (W_2 g(W_1 N(u) + b_1) + b_2), or gated rho (W_2 (g(W_G N(u) + b_G) . (W_1 N(u) + b_1)) + b_2), with N the
/// norm of the weights or, without one, the identity. Biases may be null.
Rows feed_forward(const Rows& u, int width, const ReactionSettings& settings,
                  const ReactionWeights<const double>& weights);

}  // namespace fluxformer::reference
