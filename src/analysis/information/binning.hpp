#pragma once

// Mutual information of binned states, in nats: each component of T falls into one of B intervals of equal
// width, T_b is the cell of the grid. X tells T exactly and is different for every sample, so that
//
//   I(X; T_b) = H(T_b) = ln N - 1/N sum over cells n_c ln n_c,     I(T_b; Y) = H(T_b) + H(Y) - H(T_b, Y).
//
// Plug-in estimates: once most cells hold one sample, I(X; T_b) is ln N and I(T_b; Y) is H(Y), whatever T
// holds. Source: Shwartz-Ziv, Tishby, arXiv 1703.00810; what it measures: Saxe et al., ICLR 2018.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "analysis/information/information.hpp"

namespace fluxformer::information {

struct Bins {
  std::size_t count = 30;  ///< per component, 1 to 2^30
  /// Of every component, [-1, 1] for tanh; numbers outside count for the bin at that end. Without one: from
  /// the smallest to the largest number of all components (one width, so that small components stay small).
  std::optional<std::pair<double, double>> range;
};

/// N ln N comparisons of m numbers. Does not depend on the order of the samples, to the bit. Not collective.
/// Throws BadInput for a count out of range, an empty range, and as require_points and require_labels do.
InformationPlane binned_information(const Points& t, std::span<const int> labels, const Bins& bins);

}  // namespace fluxformer::information
