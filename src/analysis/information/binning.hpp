#pragma once

// Mutual information of binned states, in nats. Each component of T is assigned to one of B intervals of
// equal width; T_b is the resulting cell of the grid. X determines T and is different for every sample, hence
//
//   I(X; T_b) = H(T_b) = ln N - 1/N sum over cells n_c ln n_c,     I(T_b; Y) = H(T_b) + H(Y) - H(T_b, Y).
//
// These are plug-in estimates: once most cells hold one sample, I(X; T_b) is ln N and I(T_b; Y) is H(Y),
// whatever T contains. Source: Shwartz-Ziv, Tishby, arXiv 1703.00810; what it measures: Saxe et al., ICLR
// 2018.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "analysis/information/information.hpp"

namespace fluxformer::information {

/// The grid of intervals.
struct Bins {
  std::size_t count = 30;  ///< per component, 1 to 2^30
  /// Of every component, [-1, 1] for tanh; numbers outside count in the first or last bin. Without a range:
  /// from the smallest to the largest number of all components (the same width for all).
  std::optional<std::pair<double, double>> range;
};

/// Cost: N ln N comparisons of m numbers. Independent of the order of the samples, bit for bit. Not
/// collective. Throws BadInput for a count out of range, an empty range, and as require_points and
/// require_labels do.
InformationPlane binned_information(const Points& t, std::span<const int> labels, const Bins& bins);

}  // namespace fluxformer::information
