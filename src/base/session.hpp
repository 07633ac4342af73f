#pragma once

// Initialisation and end of MPI, PETSc and SLEPc, signals that ask the run to stop.

#include <mpi.h>

namespace fluxformer {

/// Initialises MPI, PETSc and SLEPc and finalises them. PETSc does not see the command line, and returns errors
/// without printing them. From here on SIGUSR1 and SIGTERM set a flag instead of ending the process, and a
/// file beyond the limit on file sizes is an error of the write. One per process; must outlive every other
/// object of the library.
class Session {
 public:
  /// MPI is initialised only if it is not yet. Collective over all processes; throws std::logic_error for a
  /// second session.
  Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();
};

/// Collective over `comm`: the number of a signal that some rank received, or 0.
int stop_signal(MPI_Comm comm);
/// For the time before the first step, when there is nothing to save: throws Error (exit code 4) if this
/// process received such a signal. Not collective: call it within `collectively`.
void leave_if_asked_to_stop();

}  // namespace fluxformer
