#pragma once

// Which library multiplies matrices, and whether the environment slows it down. For logs and benchmarks.

#include <string>

namespace fluxformer {

/// Library, version and the kernels it chose for this machine: "OpenBLAS 0.3.21, kernel SkylakeX", "BLIS
/// 0.9.0, kernel zen3", "Eigen 3.4.0".
std::string blas_description();

/// Empty, or one sentence for the log: OPENBLAS_CORETYPE makes OpenBLAS use kernels without AVX-512 on a
/// machine that has it, which can halve the speed of float products.
std::string blas_warning();

}  // namespace fluxformer
