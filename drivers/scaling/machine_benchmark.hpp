#pragma once

// What the machine can do, as seen by a rank while the others do the same: products, messages, sums.

#include <mpi.h>

#include <vector>

#include "model/depth_model.hpp"
#include "model/precision.hpp"

namespace fluxformer {

/// Flops per second of products of square matrices of `side` rows, on this rank, while all others are at it;
/// the best of several. Collective.
double product_rate(Precision precision, int side, MPI_Comm comm);

/// Seconds that a message of so many bytes takes from the first rank to the last, median of half round
/// trips; NaN with one rank. Collective; the same on all ranks.
std::vector<double> message_seconds(const std::vector<double>& bytes, MPI_Comm comm);

/// Seconds of an MPI_Allreduce (sum of doubles) of so many bytes, median; NaN with one rank. Collective; the
/// same on all ranks.
std::vector<double> sum_seconds(const std::vector<double>& bytes, MPI_Comm comm);

}  // namespace fluxformer
