#pragma once

// Microbenchmark of matrix products, on all ranks at once.

#include <mpi.h>

namespace fluxformer {

/// Floating-point operations per second of this rank in the product of two square matrices of T (float,
/// double) of `side` rows, the best of some trials that all ranks begin together. Collective.
template <class T>
double product_rate(int side, MPI_Comm comm);

}  // namespace fluxformer
