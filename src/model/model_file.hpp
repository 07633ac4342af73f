#pragma once

// Weights on disk: group /model of an HDF5 file (docs/output-format.md).

#include <mpi.h>

#include <string>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Writes attributes and arrays of /model. Collective; every rank holds the same parameters.
void write_model(io::ArchiveWriter& archive, const Parameters& parameters);

/// Reads them. Collective. Throws BadInput naming file and object if something is missing, has the wrong
/// shape or is not a number. Without kappa, alpha and rho (imported weights) they are 0, 1 and 1, as in
/// PyTorch. Throws BadInput, too, for a model that does not fit into the memory.
Parameters read_model(const io::ArchiveReader& archive);

}  // namespace fluxformer
