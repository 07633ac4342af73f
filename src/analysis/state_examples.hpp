#pragma once

// A slab as a list of examples with d features: the form that similarity and information measures take.

#include <Eigen/Core>

#include "operators/slab.hpp"

namespace fluxformer {

/// Row-major, as slabs are.
using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// [real token][channel] of one sample, as it lies in a slab.
using SampleView = Eigen::Map<const RowMatrix, 0, Eigen::OuterStride<>>;

/// What one example is. pooled: a sample, its features the means of the state u over its real tokens (before
/// any final LayerNorm). tokens: a real token of a sample, its features the channels of u there.
enum class Examples { pooled, tokens };

/// The real tokens of a sample; none for a sample of length 0. Not collective; needs all tokens on this rank.
SampleView sample_of(const SlabContext& context, const double* u, int sample);

/// The examples of a slab in the order of samples (and tokens), [example][channel]. Samples of length 0 and
/// padding are left out. Not collective. Throws BadInput for tokens spread over ranks.
RowMatrix examples_of(const SlabContext& context, const double* u, Examples what);

/// Throws BadInput, naming `measure`, for tokens spread over ranks.
void need_whole_line(const TokenLine& line, const char* measure);

}  // namespace fluxformer
