#pragma once

// Blocks of a vector: the entries that belong together (a weight matrix, a layer), as ranges of global
// indices.

#include <petscmat.h>

#include <vector>

namespace fluxformer::spectra {

/// The global indices begin, ..., end - 1.
struct IndexRange {
  PetscInt begin, end;
};
/// A block: ranges in ascending order that do not overlap.
using Block = std::vector<IndexRange>;

/// Number of entries of a block.
PetscInt block_size(const Block& block);

/// Throws BadInput for a block that has no entry, is not ascending or leaves 0, ..., size - 1. The same on
/// every rank.
void check_block(const Block& block, PetscInt size);

/// The parts of `block` that the rows first, ..., last - 1 have in common with it.
Block common(const Block& block, PetscInt first, PetscInt last);

}  // namespace fluxformer::spectra
