#pragma once

// Initial weights of a model.

#include <cstdint>

#include "model/parameters.hpp"

namespace fluxformer {

/// Standard initialisation: matrices Xavier-uniform (Glorot and Bengio 2010), U(-a, a) with a = sqrt(6 / (in
/// + out)), W_Q, W_K, W_V each d x d; LayerNorm gain 1; biases 0; positions, segments and class token N(0,
/// 0.02^2); word vectors N(0, 1/d); kappa, alpha, rho as given. Each number is keyed by seed, array and
/// index: the same on any rank.
void initialise_standard(Parameters& parameters, std::uint64_t seed, double kappa, double alpha, double rho);

/// Scaled identities for the interacting particles (T10-T12): W_Q = W_K = query_key I, W_V = value I,
/// W_O = I, all biases 0, gains 1, no reaction (W_1 = W_2 = 0), kappa = 0, alpha = 1, rho = 0.
void initialise_scaled_identity(Parameters& parameters, double query_key, double value);

/// Weights of the reaction for which R(x) = rate * x exactly, by pairs of ReLUs: relu(x) - relu(-x) = x. Sets
/// rho = 1. For tests that need a known field. Throws BadInput unless the activation is ReLU and ffn >= 2
/// width.
void set_linear_reaction(Parameters& parameters, double rate);

}  // namespace fluxformer
