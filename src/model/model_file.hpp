#pragma once

// Weights on disk: group /model of an HDF5 file (docs/output-format.md).

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Writes /model in parts: the attributes, then any arrays of the model, whose `values` rank 0 has (at the
/// views' offsets; null on other ranks). Collective.
void write_model_attributes(io::ArchiveWriter& archive, const ModelSpec& spec);
void write_model_arrays(io::ArchiveWriter& archive, const std::vector<ParameterView>& views,
                        const double* values);

/// Digest of the attributes of /model (io/digest.hpp). Pure.
std::uint64_t digest_of(const ModelSpec& spec);

/// The share of the parameters of a model that a rank needs. An empty function means all.
using ShareOf = std::function<ParameterShare(const ModelSpec&)>;

/// The share of this rank in a model by `share`, if the shares of all ranks fit into the memory; else throws
/// BadInput "<what>: needs about ...". A model that fits on no number of these ranks is refused before
/// `share` is asked. Collective.
ParameterShare share_that_fits(MPI_Comm comm, const ModelSpec& spec, const ShareOf& share,
                               const std::string& what);

/// Reads this rank's share of the model in a file. Throws BadInput naming file and object if something is
/// missing, has the wrong shape or is not a number, and for a share that does not fit into the memory.
/// Without kappa, alpha and rho (imported weights) they are 0, 1 and 1, as in PyTorch. Collective.
Parameters read_model(const io::ArchiveReader& archive, const ShareOf& share = {});

}  // namespace fluxformer
