#pragma once

// What `provenance` needs to know from the beginning of the run. For Session alone.

#include <mpi.h>

namespace fluxformer {

/// Collective over `comm`: every rank notes rank 0's time and host, so that `provenance` is the same on all.
void note_run_facts(MPI_Comm comm);

}  // namespace fluxformer
