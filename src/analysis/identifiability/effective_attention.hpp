#pragma once

// Effective attention: the part of a head's weights that acts on its output. Row by row,
//
//   linear   A_eff = A - projection of A on LN(T) = A U_r U_r^T,    T = U Sigma Z^T of rank r,
//   simplex  the same with [T, 1] in place of T.
//
// A_eff T = A T in both. `linear` is the solution of X T = A T of least norm; its rows need not sum to 1.
// Rows of `simplex` do. Entries of both may be negative. Both are A itself where r = n. Source: Brunner et
// al., arXiv 1908.04211, section 3; docs/model.md, section 10.5.
//
// Causal mask: each row within the tokens that it sees; the ranks are those of nullities.hpp. Only entries
// that a row sees are counted in measures: the others are 0 by the mask alone.

#include <vector>

#include "analysis/identifiability/column_space.hpp"
#include "analysis/identifiability/sample_head.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {

/// Properties of the weights that are kept: their output, or their output and the sum of each row.
enum class EffectivePart { linear, simplex };

/// A_eff (n x n) of a head without a causal mask whose column spaces are known. O(n^2 rank).
Matrix effective_attention(const Matrix& weights, const ValueSpace& space, EffectivePart part);

/// A_eff (n x n) of any head. NaN if its values are not finite. Cost under a causal mask: O(n^2 d_v), and the
/// singular values of some of its leading rows.
Matrix effective_attention(const SampleHead& head, EffectivePart part);

/// Raw against effective attention of one head and sample: how alike their entries are, and what changes for
/// a reader. No units. NaN where a weight is not finite.
struct EffectiveResult {
  double correlation = 0;        ///< Pearson, over all entries that count; NaN where either is constant
  double row_sum = 0;            ///< mean over rows of the sum of effective weights; raw ones sum to 1
  double kept_norm = 0;          ///< |A_eff|_F / |A|_F, at most 1
  double negative_share = 0;     ///< share of effective entries below 0 by more than round-off
  double entropy = 0;            ///< entropy of raw rows, in nats, mean over rows
  double effective_entropy = 0;  ///< entropy of |entries| / their sum; 0 for a row of zeros
  double moved_share = 0;        ///< share of rows whose largest weight, signed, sits elsewhere
};

/// effective: n x n, from `effective_attention` of the same head. O(n^2).
EffectiveResult effective_measures(const SampleHead& head, const Matrix& effective);

/// [row]: the key with the largest weight, signed, among those that the row sees; the first of those that are equal
/// up to round-off, as effective weights of equal tokens are. `weights`: n x n, raw or effective ones of this head.
std::vector<int> largest_weights(const SampleHead& head, const Matrix& weights);

/// The null control: what a head with these weights would show if the column space of T were random, of the
/// same rank r. With rho = r / n, and c^2 = n mean_i |a_i|^2 - 1 pooled over the rows,
///
///     linear   correlation sqrt(rho) / sqrt(1 + (1 - rho)/c^2),
///              mean row sum rho, standard deviation sqrt(2 rho (1 - rho)/(n + 2)) for equal rows at most,
///     simplex  correlation sqrt(r/(n - 1)), row sums 1.
///
/// A head above it has attention aligned with col(T). It follows from E a P a^T = rho |a|^2 for a random
/// projection P of rank rho n; expectations are taken in numerator and denominator separately, with relative
/// errors of order 1/n. Causal: row i sees i + 1 tokens and has the rank min(r, i + 1); its own rho_i =
/// rank/(i + 1) goes into the same sums.
struct EffectiveNull {
  double correlation = 0;         ///< Pearson of raw and effective entries; NaN for constant weights
  double correlation_spread = 0;  ///< standard deviation of `correlation` over draws; NaN from the formula
  double row_sum = 0;             ///< mean over rows of the sum of effective weights
  double row_sum_spread = 0;  ///< standard deviation of `row_sum`; from the formula NaN under a causal mask
};

/// The null by the formula. rank: of T over all tokens, for both parts.
EffectiveNull expected_null(const SampleHead& head, int rank, EffectivePart part);

/// The null from `draws` (2 or more) random T of Gaussian numbers, for tests of the formula. One item of the
/// stream for each draw. Cost: that of as many effective attentions.
EffectiveNull drawn_null(const SampleHead& head, int rank, EffectivePart part, int draws,
                         const RandomStream& stream);

}  // namespace fluxformer::identifiability
