#pragma once

// Weights on disk: group /model of an HDF5 file (docs/output-format.md).

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Writes attributes and arrays of /model. Collective; every rank holds the same parameters.
void write_model(io::ArchiveWriter& archive, const Parameters& parameters);

/// The same in parts: the attributes, then any arrays of the model, of which rank 0 has the `values` (at the views' offsets).
void write_model_attributes(io::ArchiveWriter& archive, const ModelSpec& spec);
void write_model_arrays(io::ArchiveWriter& archive, const std::vector<ParameterView>& views,
                        const double* values);

/// The share of the parameters that a rank needs of a model; all, by default.
using ShareOf = std::function<ParameterShare(const ModelSpec&)>;

/// What `share` says of a model, all by default, if it fits into the memory; else throws BadInput "<what>: needs about ...". A model
/// that fits on no number of these ranks is refused before `share` is asked. Collective.
ParameterShare share_that_fits(MPI_Comm comm, const ModelSpec& spec, const ShareOf& share,
                               const std::string& what);

/// Reads them. Collective. Throws BadInput naming file and object if something is missing, has the wrong
/// shape or is not a number. Without kappa, alpha and rho (imported weights) they are 0, 1 and 1, as in
/// PyTorch. Throws BadInput, too, for a share that does not fit into the memory.
Parameters read_model(const io::ArchiveReader& archive, const ShareOf& share = {});

}  // namespace fluxformer
