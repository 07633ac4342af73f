#pragma once

// Attention, its adjoint, and both along a direction, as simply as possible: loops over n x n kernels on
// numbers that carry their derivative (dual numbers), so that no formula of the second order is written down.

#include "tests/support/attention_layout.hpp"
#include "tests/support/reference_attention.hpp"

namespace fluxformer::reference {

/// Weights in the order of a layout; state; the vector of the adjoint.
struct AttentionPoint {
  std::vector<double> weights, u, w;
};

/// alpha (W_O mix + b_O) and the adjoints of u and of the weights, for kernel dot with soft-max or linear.
struct AttentionSweep {
  Rows out, u_bar;
  std::vector<double> weights_bar;
};

/// The sweep at a point, and how it varies along a direction.
struct AttentionAlong {
  AttentionSweep value, variation;
};

/// The sweep at `at` and its variation along `direction`.
AttentionAlong attention_along(const WholeLine& line, const AttentionSettings& settings,
                               const test::AttentionLayout& layout, const AttentionPoint& at,
                               const AttentionPoint& direction);

}  // namespace fluxformer::reference
