#pragma once

// Spearman's rank correlation: the Pearson correlation of the ranks. Tied values have the mean of their ranks
// (mid-ranks), so that the result does not depend on the order in which they come. Source: Spearman 1904; with ties:
// Kendall and Gibbons, "Rank Correlation Methods".

#include <span>
#include <vector>

namespace fluxformer::identifiability {

/// 1 for the smallest, the mean of the places for equal values. Throws BadInput for NaN.
std::vector<double> mid_ranks(std::span<const double> values);

/// In [-1, 1]. NaN where one side is constant, or has fewer than two values. Throws BadInput for different sizes or NaN.
double spearman(std::span<const double> x, std::span<const double> y);

}  // namespace fluxformer::identifiability
