#pragma once

// What a classifier sees of each sample: the mean over its real tokens, its first or its last one; and the transpose.

#include <vector>

#include "model/model_spec.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// pooled [sample][channel] := that of a slab. Collective over the token line.
void pool(Pooling pooling, const SlabContext& context, const double* slab, std::vector<double>& pooled);

/// slab := the transpose of `pool` applied to pooled_bar [sample][channel]; 0 for padding. Not collective.
void spread(Pooling pooling, const SlabContext& context, const std::vector<double>& pooled_bar, double* slab);

}  // namespace fluxformer
