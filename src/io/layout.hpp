#pragma once

// The layout of every file: groups, attributes of the root, words for the status. Measures are not listed
// here: each is defined with the code that computes it (io/variable.hpp).

#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// Version of the format, to be increased when an older reader would misinterpret a new file.
inline constexpr long schema_version = 1;

namespace names {

/// The path of a dataset in a group.
inline std::string in(const std::string& group, const std::string& leaf) {
  return group + "/" + leaf;
}

/// The path of an axis.
inline std::string root(const io::Variable& axis) {
  return "/" + axis.name;
}

// Attributes of the root.
inline const io::Attribute version{"schema_version", "version of this format"},
    experiment{"experiment", "name of the experiment"},
    created{"created", "when the run began, ISO 8601, UTC"},
    git_revision{"git_revision", "revision of the source"},
    git_dirty{"git_dirty", "true if the source had uncommitted changes"},
    command_line{"command_line", "how the program was called"}, deck{"deck", "the input deck, verbatim"},
    settings{"settings", "all resolved settings, as a deck that reproduces the run"},
    seed{"seed", "seed of all random streams; absent: there are only those of the coordinate seed"},
    ranks{"ranks", "number of MPI ranks"}, compiler{"compiler", "compiler and version"},
    petsc{"petsc", "version of PETSc"}, slepc{"slepc", "version of SLEPc"},
    petsc_options{"petsc_options", "the environment variable PETSC_OPTIONS, if it is set"},
    hdf5{"hdf5", "version of HDF5"}, mpi{"mpi", "version of MPI"},
    blas{"blas", "matrix product library and kernel in use"}, host{"host", "host of rank 0"},
    cites{"cites", "sources whose numbers or methods the run uses"},
    status{"status", "running, done, failed or interrupted"},
    message{"message", "why the status is not done"};
inline constexpr const char *running = "running", *done = "done", *failed = "failed",
                            *interrupted = "interrupted";

// Attributes of datasets and of the timing group.
inline const io::Attribute unit{"unit", "unit of the numbers; 1 for a pure number"},
    long_name{"long_name", "what the numbers are"},
    statistics{"statistics", "what the three numbers of each phase are"},
    tokens_x{"tokens_x", "columns of the token lattice"}, tokens_y{"tokens_y", "rows of the token lattice"};

// Groups.
inline constexpr const char *field = "/field", *analysis = "/analysis", *timing = "/timing",
                            *state = "/state";
/// The group of `edges`, those of depth cells that were found for a model, in layers: what mesh.edges = FILE reads.
inline constexpr const char* mesh = "/mesh";

/// Axes for the dimensions of an array that have no coordinates: "extent_3", and "extent_3_2" for the second
/// one of that length. They need no definition.
std::vector<std::string> anonymous_axes(const std::vector<Index>& shape);
/// The length 3 of "extent_3" and "extent_3_2"; std::nullopt for an axis that is not anonymous.
std::optional<Index> anonymous_extent(const std::string& axis);

// Attribute of /state of a checkpoint.
inline const io::Attribute complete{"complete", "checkpoint: 1, written after everything else"};

// Attribute of the datasets in /model and /state, and of /state.
inline const io::Attribute digest{"digest", "digest of the numbers, verified before they are used"};

}  // namespace names

namespace io {

/// Describes what every file of the program holds.
void describe_archive(Description& description);
/// Describes the group /state of checkpoints.
void describe_checkpoint(Description& description);

}  // namespace io
}  // namespace fluxformer
