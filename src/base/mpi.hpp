#pragma once

// Rank and size of a communicator, and sums, maxima and messages of any length: MPI counts in int, so long
// arrays go in parts.

#include <mpi.h>

#include <span>

#include "base/error.hpp"

namespace fluxformer {

namespace mpi {

/// Rank of this process in `comm`, whoever owns it. No communication.
int rank(MPI_Comm comm);
/// Number of ranks in `comm`. No communication.
int size(MPI_Comm comm);
/// True on rank 0 of `comm`. No communication.
bool is_root(MPI_Comm comm);

}  // namespace mpi

/// Replaces each number by its sum over the ranks of `comm`. Collective.
void sum_over_ranks(std::span<double> numbers, MPI_Comm comm);
/// Replaces each number by its maximum over the ranks of `comm`. Collective.
void largest_over_ranks(std::span<double> numbers, MPI_Comm comm);

/// Replaces each number by that of the rank `from`. Collective.
void broadcast_numbers(std::span<double> numbers, int from, MPI_Comm comm);

/// Sends numbers to one rank, which knows how many come. Blocks until they may be overwritten.
void send_numbers(std::span<const double> numbers, int to, int tag, MPI_Comm comm);
/// Receives as many numbers as `numbers` holds, and waits for them.
void receive_numbers(std::span<double> numbers, int from, int tag, MPI_Comm comm);

}  // namespace fluxformer
