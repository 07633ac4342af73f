#pragma once

// How much memory a run may take, so that sizes that cannot fit are refused before any is allocated.

#include <mpi.h>

#include <string>

namespace fluxformer {

/// Bytes that each rank of `comm` may take: the memory of the machine, or of the control group that the
/// process runs in, over the ranks on it; the smallest share of all ranks. Collective.
double memory_per_rank(MPI_Comm comm);

/// Throws BadInput "<what>: needs about N GB on each rank, ..." if `bytes` are more than `memory_per_rank`,
/// or than `allowed` where that is not 0 (run.memory). `what` names the keys that decide. Collective; the
/// same arguments on all ranks.
void require_memory(MPI_Comm comm, double bytes, const std::string& what, double allowed = 0);

}  // namespace fluxformer
