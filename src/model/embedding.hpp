#pragma once

// e(x) = W_E f(x) + b_E + p(x): the embedded input, inflow of equation (1) at s = 0.

#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// `input` is [sample][global token][feature] for the samples of the context; `slab` [local
/// token][sample][channel] is overwritten. Not collective.
void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab);

/// W_E, b_E, p gradients from the adjoint of the slab; this rank's share.
void embed_adjoint(const Parameters& parameters, const SlabContext& context, const double* input,
                   const double* slab_bar, std::span<double> gradient);

}  // namespace fluxformer
