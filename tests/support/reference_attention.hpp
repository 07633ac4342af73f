#pragma once

// Attention written as simply as possible: the whole token line on one process, n x n kernels, loops in
// double, no logarithms and no running maximum. The reference for the blocked, distributed operator.

#include <cstdlib>
#include <vector>

#include "operators/attention/attention.hpp"
#include "tests/support/reference_layer.hpp"

namespace fluxformer::reference {

/// A line of tokens without ranks. u is [token][sample][channel].
struct WholeLine {
  int tokens = 1, samples = 1, width = 1;
  TokenMask mask = {};

  /// Query x sees key y through a window (AttentionWeights::window).
  bool sees(int sample, int x, int y, int window) const {
    if (!mask.real(sample, y) || (mask.causal && y > x)) return false;
    return window == 0 || (mask.causal ? x - y < window : std::abs(x - y) <= window);
  }
};

/// k as [sample][head][query][key]; 0 for masked keys, and all 0 for a query that sees none. Rows of padded queries are filled: sinkhorn normalises
/// them in odd half-steps, but column sums exclude them. With weights w, rows sum to 1 and columns obey sum_x
/// w_x k(x, y) / w_y = 1 after an even half-step.
std::vector<double> attention_matrix(const WholeLine& line, const AttentionSettings& settings,
                                     const AttentionWeights<const double>& weights, const Rows& u);

/// alpha (W_O concat_heads(sum_y k(x, y) v(y)) + b_O)
Rows attention(const WholeLine& line, const AttentionSettings& settings,
               const AttentionWeights<const double>& weights, const Rows& u);

}  // namespace fluxformer::reference
