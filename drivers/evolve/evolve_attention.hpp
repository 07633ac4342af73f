#pragma once

// Output of attention at the end of a run.

#include <petscvec.h>

#include <vector>

#include "io/archive_writer.hpp"
#include "mesh/mesh.hpp"
#include "model/equation.hpp"

namespace fluxformer {

/// Throws BadInput (the same on all ranks) if one rank cannot hold the attention weights of all cells.
void require_storable_attention(const Mesh& mesh, const Equation& equation);

/// Writes the entropy of attention per depth cell and head, averaged over samples and queries and divided by
/// log n. With `store` the weights are written, too (n^2 numbers per cell, sample and head, held by every
/// rank). Without `store` nothing is written beyond 1024 tokens or 2^25 weights of a depth cell on one rank,
/// where the weights would no longer be small compared with the state. Collective over the mesh.
void write_attention(io::ArchiveWriter& archive, const Mesh& mesh, const Equation& equation, Vec u,
                     const std::vector<double>& inflow_slab, bool store);

}  // namespace fluxformer
