#pragma once

// Initial weights of a new model, and of a trained one that is adapted to another task by other heads.

#include <cstdint>
#include <string>

#include "model/parameters.hpp"

namespace fluxformer {

/// Standard initialisation: matrices Xavier-uniform (Glorot and Bengio 2010), U(-a, a) with a = sqrt(6 / (in
/// + out)), W_Q, W_K, W_V each d x d; LayerNorm gain 1; biases 0; positions, segments and class token N(0,
/// 0.02^2); word vectors N(0, 1/d); kappa, alpha, rho and nu (if the model has transport) as given. Each
/// number is keyed by seed, array and index: the same on any rank.
void initialise_standard(Parameters& parameters, std::uint64_t seed, double kappa, double alpha, double rho,
                         double nu = 0);

/// Scaled identities for the interacting particles (T10-T12): W_Q = W_K = query_key I, W_V = value I,
/// W_O = I, all biases 0, gains 1, no reaction (W_1 = W_2 = 0), kappa = 0, alpha = 1, rho = 0.
void initialise_scaled_identity(Parameters& parameters, double query_key, double value);

/// A model adapted to another task, and a report of what became of the arrays of the model it was made from.
struct AdaptedModel {
  Parameters parameters;
  /// "kept: ...; new: ...; left out: ...": groups of arrays, and the arrays by name where a group is only
  /// kept in part or an array has another size ("head/W (2 x 8 instead of 1 x 8)", which is new); "" if all
  /// arrays were kept.
  std::string report;
};

/// The model `from` with `classes` outputs of a classifier (0: none) and with or without a word head. Arrays
/// of the same name and shape are kept; new ones are initialised as by initialise_standard with `seed`. If a
/// word head is wanted and `from` has one, it stays as it is: `word_head` then does not decide its matrix and
/// what is in front of it.
AdaptedModel with_heads(const Parameters& from, int classes, const WordHead& word_head, std::uint64_t seed);

}  // namespace fluxformer
