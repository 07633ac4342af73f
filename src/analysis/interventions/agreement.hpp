#pragma once

// How well an account of effects agrees with the exact ones.

#include <cstddef>
#include <span>
#include <vector>

namespace fluxformer::interventions {

/// Numbers about two lists of effects at the same places; NaN where they are not defined: all but the error for a
/// constant list (and so for fewer than two places), the error where all exact effects are 0, the share for ten places
/// or fewer, which it would always find.
struct Agreement {
  double spearman, pearson;
  double relative_error;  ///< |account - exact| / |exact|, norms over the places
  double top_share;  ///< share of the 10 places of the largest |exact| that are among those of the account
};

/// Places where either is NaN are left out. Equal numbers up to round-off count as equal (identifiability::with_ties).
/// Throws std::invalid_argument for lists of different lengths.
Agreement agreement(std::span<const double> account, std::span<const double> exact);

/// The mean of each number over those that are not NaN; NaN of none.
Agreement mean_agreement(const std::vector<Agreement>& all);

/// 1 where |1/2 D^T H D| > limit |<lambda, D>|: where first order cannot be trusted; 0 elsewhere, and where
/// either account is NaN. `second` is the account by second order, first + 1/2 D^T H D. Throws std::invalid_argument for
/// lists of different lengths.
std::vector<double> untrusted(std::span<const double> first, std::span<const double> second, double limit);

/// The indices of the `share` of these numbers (rounded up) that are largest in magnitude, ascending; NaN are left out,
/// and not counted. Ties, up to round-off, go to the lower index. Throws std::invalid_argument for a share outside
/// [0, 1].
std::vector<std::size_t> largest(std::span<const double> numbers, double share);

}  // namespace fluxformer::interventions
