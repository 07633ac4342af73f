#pragma once

// Initialisation and end of MPI and PETSc, signals that ask the run to stop, PETSc's options.

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace fluxformer {

/// Initialises MPI and PETSc and finalises both. PETSc does not see the command line, and returns errors without
/// printing them. One per process; must outlive every other object of the library.
class Session {
 public:
  /// MPI is initialised only if it is not yet. Collective over all processes; throws std::logic_error for a
  /// second session.
  Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();
};

/// Makes SIGUSR1 and SIGTERM set a flag instead of ending the process.
void catch_stop_signals();
/// Collective over `comm`: the number of a signal that some rank received, or 0.
int stop_signal(MPI_Comm comm);

/// Sets the options of section [petsc] in PETSc's database. Throws BadInput for a name that is empty, starts
/// with a dash or contains blanks.
void set_petsc_options(const std::vector<std::pair<std::string, std::string>>& options);
/// Those of `options` that PETSc never looked up. Call it after the solvers were set up.
std::vector<std::string> unused_petsc_options(
    const std::vector<std::pair<std::string, std::string>>& options);

}  // namespace fluxformer
