#pragma once

// Effective attention: the part of a head's weights that acts on its output. Row by row,
//
//   linear   A_eff = A - projection of A on LN(T) = A U_r U_r^T,    T = U Sigma Z^T of rank r,
//   simplex  the same with [T, 1] in place of T.
//
// A_eff T = A T in both. `linear` is the solution of X T = A T of least norm; its rows need not sum to 1. Rows of
// `simplex` do. Entries of both may be negative. Both are A itself where r = n. Source: Brunner et al., arXiv
// 1908.04211, section 3; specification of identifiability, section 3.
//
// Causal mask: each row within the tokens that it sees; the ranks are those of nullities.hpp.

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/value_space.hpp"

namespace fluxformer::identifiability {

/// What is kept of the weights: their output, or their output and the sum of each row.
enum class EffectivePart { linear, simplex };

/// n x n, of a head without a causal mask whose factors are known. O(n^2 rank).
Matrix effective_attention(const Matrix& weights, const ValueSpace& space, EffectivePart part);

/// n x n, of any head. NaN if its values are not finite. Cost under a causal mask: O(n^2 d_v), and the singular
/// values of some of its leading rows.
Matrix effective_attention(const AttentionHead& head, EffectivePart part);

}  // namespace fluxformer::identifiability
