#pragma once

// The libraries behind matrix products, warnings where the environment slows them down, and their speed. For
// logs and benchmarks.

#include <mpi.h>
#include <string>
#include <string_view>

namespace fluxformer {

/// The library of small products, if any, and the BLAS, each with version and the kernels chosen for this
/// machine: "libxsmm 1.17, kernels cpx; OpenBLAS 0.3.21, kernel SkylakeX", "BLIS 0.9.0, kernel zen3", "Eigen
/// 3.4.0".
std::string blas_description();

/// One sentence for the log if OpenBLAS does not know this processor and uses old kernels, or if
/// OPENBLAS_CORETYPE makes it use kernels without AVX-512 on a machine that has it; else empty.
std::string blas_warning();

/// The sentence of blas_warning for a value of OPENBLAS_CORETYPE (null: not set), a kernel in use and a
/// processor.
std::string openblas_warning(const char* asked, std::string_view kernel, bool processor_has_avx512);

/// Floating-point operations per second of this rank in the product of two square matrices of T (float,
/// double) of `side` rows, the best of some trials that all ranks begin together. Collective.
template <class T>
double product_rate(int side, MPI_Comm comm);

}  // namespace fluxformer
