#pragma once

// Initialisation and end of MPI and PETSc, signals that ask the run to stop.

#include <mpi.h>

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

}  // namespace fluxformer
