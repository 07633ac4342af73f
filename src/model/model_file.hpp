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

/// Reads them. Collective. Throws BadInput naming file and object for what is missing, of another shape, or
/// not a number. What a file from elsewhere may lack has the meaning it has in PyTorch: kappa 0, alpha = rho
/// = 1.
Parameters read_model(const io::ArchiveReader& archive);

}  // namespace fluxformer
