#pragma once

// In-place MPI_SUM/MPI_MAX of any length, chunked to MPI's int counts.

#include <mpi.h>

#include <span>

namespace fluxformer {

/// Each number becomes its sum over the ranks of `comm`. Collective.
void sum_over_ranks(std::span<double> numbers, MPI_Comm comm);
/// Each number becomes its maximum over the ranks of `comm`. Collective.
void largest_over_ranks(std::span<double> numbers, MPI_Comm comm);

}  // namespace fluxformer
