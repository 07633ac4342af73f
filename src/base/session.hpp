#pragma once

// MPI and PETSc from beginning to end of the process, signals that ask for a polite stop, and versions.

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace fluxformer {

/// Initialises MPI and PETSc (PETSc never sees our command line; it returns errors rather than printing them)
/// and ends both. Outlives every other object of the library; one per process.
class Session {
 public:
  Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();
};

/// From now on SIGUSR1 and SIGTERM only set a flag.
void catch_stop_signals();
/// Collective over `comm`: the signal number some rank has received, or 0.
int stop_signal(MPI_Comm comm);

/// Forwards [petsc] keys to PETSc's options database. Throws BadInput on a name that starts with a dash or
/// blank.
void set_petsc_options(const std::vector<std::pair<std::string, std::string>>& options);
/// The forwarded options that PETSc never asked for (call after the solvers were set up and run).
std::vector<std::string> unused_petsc_options(
    const std::vector<std::pair<std::string, std::string>>& options);

/// name -> value: git_revision, git_dirty, compiler, petsc, mpi, created (when the session began, ISO 8601
/// UTC), host (of rank 0), and petsc_options if PETSC_OPTIONS is set in the environment. The same on every
/// rank; needs the Session. The floors that use HDF5 and BLAS know their versions.
std::vector<std::pair<std::string, std::string>> provenance();

}  // namespace fluxformer
