#pragma once

// How well a score finds samples that are known to be wrong.

#include <cstddef>
#include <span>
#include <vector>

namespace fluxformer::influence {

/// The share of wrong samples (1, others 0) among the `k` of the largest score. Of samples whose score equals that of
/// the k-th, as many as there are places left count by their share: the mean over all orders of equals. A score that is
/// NaN is below all others. NaN for k = 0. Throws std::invalid_argument for lists of different lengths, and for
/// more places than samples.
double precision_at(std::span<const double> scores, std::span<const double> wrong, std::size_t k);

/// The places of the `count` largest scores, the largest first; of equal ones the first, NaN last.
std::vector<std::size_t> largest_scores(std::span<const double> scores, std::size_t count);

}  // namespace fluxformer::influence
