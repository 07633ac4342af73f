#pragma once

// The samples of a slab as vectors (real tokens 0 .. length-1, all channels), and linear maps that act on
// each sample separately, as the derivative of a layer does.

#include <Eigen/Core>
#include <functional>

#include "base/random.hpp"
#include "operators/slab.hpp"

namespace fluxformer::derivatives {

/// out := A v on slabs of a context; sample b of `out` depends on sample b of v only. v and out do not
/// overlap.
using SlabMap = std::function<void(const double* v, double* out)>;

/// The vector of sample b, [token][channel]; empty for a sample of length 0. Not collective; needs all tokens
/// on this rank.
Eigen::VectorXd take_sample(const SlabContext& context, const double* slab, int b);
/// Writes it back; the padding of the sample becomes 0.
void put_sample(const SlabContext& context, const Eigen::VectorXd& numbers, int b, double* slab);

/// Standard normal numbers, each keyed by its index: independent of padding.
Eigen::VectorXd random_direction(const RandomStream& of_sample, Eigen::Index size);

}  // namespace fluxformer::derivatives
