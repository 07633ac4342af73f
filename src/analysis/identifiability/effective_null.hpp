#pragma once

// The null control of effective attention: what a head with these weights would show if the column space of T
// were random, of the same rank r. With rho = r / n, and c^2 = n mean_i |a_i|^2 - 1 pooled over the rows,
//
//   linear   correlation sqrt(rho) / sqrt(1 + (1 - rho)/c^2),
//            mean row sum rho, standard deviation sqrt(2 rho (1 - rho)/(n + 2)) for equal rows at most,
//   simplex  correlation sqrt(r/(n - 1)), row sums 1.
//
// A head above it has attention aligned with col(T). Source: specification of identifiability, section 3.
//
// From E a P a^T = rho |a|^2 for a random projection P of rank rho n; expectations are taken in numerator and
// denominator separately, with relative errors of order 1/n. Causal: row i sees i + 1 tokens and has the rank
// min(r, i + 1); its own rho_i = rank/(i + 1) goes into the same sums.

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/effective_attention.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {

/// Of one head and sample.
struct EffectiveNull {
  double correlation = 0;         ///< Pearson of raw and effective entries; NaN for constant weights
  double correlation_spread = 0;  ///< standard deviation over draws; NaN from the formula
  double row_sum = 0;             ///< mean over rows
  double row_sum_spread = 0;      ///< standard deviation; from the formula NaN under a causal mask
};

/// By the formula. rank: of T over all tokens, for both parts.
EffectiveNull expected_null(const AttentionHead& head, int rank, EffectivePart part);

/// From `draws` (2 or more) random T of Gaussian numbers: mean and standard deviation. One item of the stream
/// for each draw. Cost: that of as many effective attentions.
EffectiveNull drawn_null(const AttentionHead& head, int rank, EffectivePart part, int draws,
                         const RandomStream& stream);

}  // namespace fluxformer::identifiability
