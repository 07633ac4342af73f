#pragma once

// How many attention weights give the same output of a head, as dimensions of freedom of one row of weights.
// For n tokens and T = V H (value_space.hpp):
//
//   linear   n - rank T         any change of the row
//   simplex  n - rank [T, 1]    changes that keep the row's sum. Rows of a soft-max are positive, so that small
//                               changes stay non-negative: weights are not unique if and only if this is > 0.
//
// Beside them the epsilon-nullities, which count singular values not above epsilon * s_max as zeros, too: how
// much freedom there is in practice. Source: Brunner et al., arXiv 1908.04211, section 3; specification of
// identifiability, section 2.
//
// Causal mask: row i has i + 1 tokens and the first i + 1 rows of T. Its nullity takes those, and the number of
// the head is the mean over its rows. The thresholds of all its rows are relative to s_max of the whole matrix.

#include <array>

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/value_space.hpp"

namespace fluxformer::identifiability {

/// Relative to the largest singular value.
inline constexpr std::array<double, 3> nullity_epsilons{1e-2, 1e-3, 1e-6};

/// Dimensions of freedom of a row of weights; a mean over rows where they differ. NaN for values that are not
/// finite.
struct Nullity {
  double exact = 0;  ///< by the rank rule of numerical_rank.hpp
  std::array<double, nullity_epsilons.size()>
      epsilon{};      ///< for each of `nullity_epsilons`, never below exact
  double margin = 0;  ///< of the rank, see NumericalRank; under a causal mask that of all rows together

  /// Whether `exact` is clear of the threshold.
  bool certain() const { return margin >= 100; }
};

/// Both nullities of a head.
struct HeadNullities {
  Nullity linear, simplex;
};

/// Of a head without a causal mask, from its factors: O(d_v^2) more.
HeadNullities nullities(const ValueSpace& space);
/// Of any head. Cost without a mask: that of ValueSpace; with a mask two to n times as much.
HeadNullities nullities(const AttentionHead& head);

/// Freedom that the heads of a layer have together beyond that of each alone, per row of all heads: dimensions
/// of {(x_h): sum_h x_h^T T_h = 0}, linear or with 1^T x_h = 0 for each head, less the sum over heads. Exactly 0
/// if the output projection [H_1; H_2; ...] has full row rank, as an invertible one has. Never negative.
struct ExcessNullity {
  double linear = 0, simplex = 0;
};

/// Whether the projection has full row rank: the excess is 0 for every sample. Takes the H alone, so that it need
/// be asked but once a layer. O((heads d_v)^3).
bool heads_add_up(const LayerHeads& heads);

/// Of the heads of one layer and one sample, which have the same tokens and mask. Causal: mean over rows. NaN
/// for values that are not finite. Cost: that of `heads_add_up`, and where they do not some times as much, under
/// a causal mask for each row.
ExcessNullity excess_nullity(const LayerHeads& heads);

}  // namespace fluxformer::identifiability
