#pragma once

// Sums and largest numbers over ranks, of any count: MPI counts in int.

#include <mpi.h>

#include <span>

namespace fluxformer {

/// numbers := their sum over the ranks of `comm`; any count. Collective.
void sum_over_ranks(std::span<double> numbers, MPI_Comm comm);
/// numbers := the largest of each over the ranks. Collective.
void largest_over_ranks(std::span<double> numbers, MPI_Comm comm);

}  // namespace fluxformer
