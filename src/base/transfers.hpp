#pragma once

// Messages of any length from one rank to another, in parts that fit MPI's int counts.

#include <mpi.h>

#include <span>

namespace fluxformer {

/// Blocking; the receiver knows how many numbers come.
void send_numbers(std::span<const double> numbers, int to, int tag, MPI_Comm comm);
void receive_numbers(std::span<double> numbers, int from, int tag, MPI_Comm comm);

}  // namespace fluxformer
