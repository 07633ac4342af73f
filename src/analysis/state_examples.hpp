#pragma once

// A slab as a list of examples with d features, as measures of similarity and information need it.

#include <Eigen/Core>

#include "analysis/dense_matrices.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// [real token][channel] of one sample, inside a slab.
using SampleView = Eigen::Map<const RowMatrix, 0, Eigen::OuterStride<>>;

/// What an example is. pooled: a sample; its features are the means of the state u over its real tokens
/// (before any final LayerNorm). tokens: a real token of a sample; its features are the channels of u.
enum class Examples { pooled, tokens };

/// The real tokens of a sample; empty for a sample of length 0. Not collective; needs all tokens on this
/// rank.
SampleView sample_of(const SlabContext& context, const double* u, int sample);

/// The examples of a slab, ordered by sample (and token), [example][channel]. Samples of length 0 and padding
/// are left out. Not collective. Throws BadInput for tokens spread over ranks.
RowMatrix examples_of(const SlabContext& context, const double* u, Examples what);

/// Throws BadInput, naming `measure`, for tokens spread over ranks.
void need_whole_line(const TokenLine& line, const char* measure);

}  // namespace fluxformer
