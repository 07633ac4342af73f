#pragma once

// Blocks of a Hessian: parameter arrays that belong together, as ranges of the flat vector.

#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "solvers/spectra/blocks.hpp"
#include "training/trainable.hpp"

namespace fluxformer::hessian {

/// Kinds of blocks: the weight matrices Q, K, V, O, W_1, W_G, W_2 of every parameter set, the embedding (without
/// positions) and the matrix of the head. A model that guesses words whose word matrix is the word table has no
/// head.
inline const std::vector<std::string> block_kinds = {"Q",   "K",   "V",         "O",   "W_1",
                                                     "W_G", "W_2", "embedding", "head"};

/// One block with its name, say "Q of set 2" or "head".
struct NamedBlock {
  std::string kind;
  int set = 0;  ///< parameter set (layer or knot) from 1; 0 if the block belongs to none
  spectra::Block entries;
  std::string name() const { return set == 0 ? kind : kind + " of set " + std::to_string(set); }
};

/// All blocks of these kinds that a model has: the embedding, the sets in their order, the head. Throws
/// BadInput, naming `key`, for a kind that does not exist.
std::vector<NamedBlock> parameter_blocks(const ParameterLayout& layout, const std::vector<std::string>& kinds,
                                         const std::string& key);

/// Ranges of the entries that are trained.
spectra::Block trained_entries(const Trainable& trainable);

}  // namespace fluxformer::hessian
