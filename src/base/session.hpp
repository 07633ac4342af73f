#pragma once

// Initialisation and end of MPI, PETSc and SLEPc, signals that ask the run to stop.

#include <mpi.h>

namespace fluxformer {

/// Owner of MPI, PETSc and SLEPc: initialises and finalises them. PETSc does not see the command line, and
/// returns errors without printing them. From here on SIGUSR1, SIGTERM and the first SIGINT (Ctrl-C)
/// set a flag instead of ending the process, and a file beyond the limit on file sizes is an error of the
/// write. One per process; must outlive every other object of the library.
class Session {
 public:
  /// Initialises the libraries, MPI only if it is not initialised yet. Collective over all processes; throws
  /// std::logic_error for a second session.
  Session(int& argc, char**& argv);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();
};

/// Number of a signal that some rank received, or 0. Collective over `comm`.
int stop_signal(MPI_Comm comm);
/// Throws Error (exit code 4) if this process received such a signal: for the time before the first step,
/// when there is nothing to save. Not collective: call it within `collectively`.
void leave_if_asked_to_stop();

}  // namespace fluxformer
