#pragma once

// Microbenchmarks of MPI: ping-pong and allreduce.

#include <mpi.h>

#include <vector>

namespace fluxformer {

/// Seconds that messages of these sizes take from the first rank to the last, median of half round trips; NaN
/// with one rank. Collective; the same on all ranks.
std::vector<double> message_seconds(const std::vector<double>& bytes, MPI_Comm comm);

/// Seconds of an MPI_Allreduce (sum of doubles) of these sizes, median; NaN with one rank. Collective; the
/// same on all ranks.
std::vector<double> sum_seconds(const std::vector<double>& bytes, MPI_Comm comm);

}  // namespace fluxformer
