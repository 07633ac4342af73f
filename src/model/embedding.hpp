#pragma once

// The embedded input: the inflow of equation (1) at s = 0.
//
//   numbers   e(x) = W_E f(x) + b_E + p(x)
//   words     e(x) = the row of the word table for word f(x), + p(x)

#include <span>

#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// `input` is [sample][global token][spec.input_size()] for the samples of the context, word indices as whole
/// numbers below spec.vocabulary; `slab` [local token][sample][channel] is overwritten. Not collective.
void embed(const Parameters& parameters, const SlabContext& context, const double* input, double* slab);

/// gradient (the flat vector) += this rank's share of the gradient with respect to the embedding, from the
/// adjoint of the slab. Not collective.
void embed_adjoint(const Parameters& parameters, const SlabContext& context, const double* input,
                   const double* slab_bar, std::span<double> gradient);

}  // namespace fluxformer
