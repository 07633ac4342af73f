#pragma once

// Revision, compiler, libraries, time and host of a run, for output files and --version.

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace fluxformer {

/// Facts about this run, as names and values: git_revision, git_dirty, compiler, petsc, slepc, mpi, created
/// (when the session began, ISO 8601 UTC), host (of rank 0), and petsc_options if PETSC_OPTIONS is set in the
/// environment. The same on every rank; needs the Session. Versions of HDF5 and BLAS are known on their own
/// floors.
std::vector<std::pair<std::string, std::string>> provenance();

/// Stores rank 0's time and host for `provenance`. Collective over `comm`. Called by `Session`.
void note_run_facts(MPI_Comm comm);

}  // namespace fluxformer
