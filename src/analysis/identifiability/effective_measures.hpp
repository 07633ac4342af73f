#pragma once

// Raw against effective attention of one head: how alike their entries are, and what changes for a reader.
// Source: Brunner et al., arXiv 1908.04211, section 3; specification of identifiability, section 3. Under a
// causal mask only the entries that a row sees are counted: the others are 0 in both by the mask alone.

#include <vector>

#include "analysis/identifiability/attention_head.hpp"

namespace fluxformer::identifiability {

/// Numbers of one head and sample, without a unit. NaN where a weight is not finite.
struct EffectiveMeasures {
  double correlation = 0;        ///< Pearson, over all n^2 entries; NaN where either is constant
  double row_sum = 0;            ///< mean over rows of the sum of effective weights; raw ones sum to 1
  double kept_norm = 0;          ///< |A_eff|_F / |A|_F, at most 1
  double negative_share = 0;     ///< share of effective entries below 0 by more than round-off
  double entropy = 0;            ///< of raw rows, in nats, mean over rows
  double effective_entropy = 0;  ///< of |entries| / their sum; 0 for a row of zeros
  double moved_share = 0;        ///< share of rows whose largest weight, signed, sits elsewhere
};

/// effective: n x n, from `effective_attention` of the same head. O(n^2).
EffectiveMeasures effective_measures(const AttentionHead& head, const Matrix& effective);

/// [row]: the key with the largest weight, signed, among those that the row sees; the first of equal ones.
/// `weights`: n x n, raw or effective ones of this head.
std::vector<int> largest_weights(const AttentionHead& head, const Matrix& weights);

}  // namespace fluxformer::identifiability
