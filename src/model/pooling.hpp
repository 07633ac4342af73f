#pragma once

// The mean over the real tokens of each sample, and its transpose.

#include <vector>

#include "operators/slab.hpp"

namespace fluxformer {

/// pooled [sample][channel] := the mean over the real tokens of a slab. Collective over the token line.
void mean_over_tokens(const SlabContext& context, const double* slab, std::vector<double>& pooled);

/// slab := the transpose of the mean applied to pooled_bar [sample][channel]; 0 for padding. Not collective.
void spread_mean(const SlabContext& context, const std::vector<double>& pooled_bar, double* slab);

}  // namespace fluxformer
