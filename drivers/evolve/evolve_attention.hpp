#pragma once

// Attention at the end of a run.

#include <petscvec.h>

#include <vector>

#include "io/archive_writer.hpp"
#include "mesh/mesh.hpp"
#include "model/equation.hpp"

namespace fluxformer {

/// Throws BadInput (the same on all ranks) if the attention weights of all cells are more than one rank can
/// hold.
void require_storable_attention(const Mesh& mesh, const Equation& equation);

/// Writes the entropy of attention per depth cell and head, mean over samples and queries, over log n; and
/// the weights themselves if `store` (n^2 numbers per cell, sample and head, held by every rank). Without
/// `store` nothing is written beyond 1024 tokens or 2^25 weights of a depth cell on one rank, which would not
/// be small beside the state.
/// Collective over the mesh.
void write_attention(io::ArchiveWriter& archive, const Mesh& mesh, const Equation& equation, Vec u,
                     const std::vector<double>& inflow_slab, bool store);

}  // namespace fluxformer
