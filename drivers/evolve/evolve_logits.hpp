#pragma once

// Output of a model's heads at the last state of a run: logits of classes and of words.

#include <petscvec.h>

#include "io/archive_writer.hpp"
#include "mesh/mesh.hpp"
#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// Throws BadInput if the model has no head, or if there are too many logits to gather. Collective over the
/// mesh.
void require_storable_logits(const Mesh& mesh, const Parameters& parameters);

/// Writes the logits of the heads that the model has, from the last depth cell of the state u. Collective
/// over the mesh.
void write_logits(io::ArchiveWriter& archive, const Mesh& mesh, const SlabContext& context,
                  const Parameters& parameters, Vec u);

}  // namespace fluxformer
