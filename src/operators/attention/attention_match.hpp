#pragma once

// Distance of attention from a target:
//
//   L = sum over samples b of weight_b / (H n_b) sum over heads and queries x of KL(target(x, .) || k(x, .))
//
// with H heads, KL(p || q) = sum_y p_y log(p_y / q_y), n_b the real tokens of the sample, k the dot-product
// soft-max kernel of attention.hpp. In double, a head at a time; the tokens are all on one rank.

#include <span>
#include <vector>

#include "operators/attention/attention.hpp"

namespace fluxformer {

/// The value L and its gradient, for the distillation of attention.
class AttentionMatch {
 public:
  /// Throws BadInput for another kernel or normalisation, a causal mask, and tokens spread over ranks.
  /// `context` is borrowed; its lengths may change.
  AttentionMatch(const SlabContext& context, const AttentionSettings& settings);

  /// Returns L; `target` is [sample][head][query][key] as Attention::matrix gives it, weight_b is `weight`.
  /// u_bar (if not null) += dL/du, gradient (then not null) += dL/d(W_Q, W_K, b_Q, b_K and the LayerNorm).
  double add(const LayerWeights<const double>& weights, const double* target,
             const std::vector<double>& weight, const double* u, double* u_bar,
             const LayerWeights<double>* gradient);

 private:
  const SlabContext& context_;
  AttentionSettings settings_;
};

}  // namespace fluxformer
