#pragma once

// Slabs as lists of examples with d features, as measures of similarity and information need them.

#include <Eigen/Core>

#include "analysis/dense_matrices.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// View of one sample in a slab, [real token][channel].
using SampleView = Eigen::Map<const RowMatrix, 0, Eigen::OuterStride<>>;

/// Kinds of examples. pooled: a sample; its features are the means of the state u over its real
/// tokens (before any final LayerNorm). tokens: a real token of a sample; its features are the channels of u.
enum class Examples { pooled, tokens };

/// Real tokens of a sample; empty for a sample of length 0. Not collective; needs all tokens on this rank.
SampleView sample_of(const SlabContext& context, const double* u, int sample);

/// Examples of a slab in the order of samples (and tokens), [example][channel], without padding and samples
/// of length 0. Not collective. Throws BadInput for tokens that are distributed over ranks.
RowMatrix examples_of(const SlabContext& context, const double* u, Examples what);

/// Throws BadInput, naming `measure`, for tokens that are distributed over ranks.
void need_whole_line(const TokenLine& line, const char* measure);

}  // namespace fluxformer
