#include "operators/kernels/blas.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/error.hpp"

#ifdef FLUXFORMER_XSMM
#include <libxsmm.h>
#endif

#if defined(FLUXFORMER_OPENBLAS)
extern "C" {
char* openblas_get_corename(void);
char* openblas_get_config(void);
}
#elif defined(FLUXFORMER_BLIS)
extern "C" {
const char* bli_info_get_version_str(void);
int bli_arch_query_id(void);
const char* bli_arch_string(int id);
}
#endif

namespace fluxformer {
namespace {

std::string library_description() {
#if defined(FLUXFORMER_OPENBLAS)
  // The configuration begins with "OpenBLAS 0.3.21 ...".
  std::istringstream config(openblas_get_config());
  std::string library, version;
  config >> library >> version;
  return library + ' ' + version + ", kernel " + openblas_get_corename();
#elif defined(FLUXFORMER_BLIS)
  return std::string("BLIS ") + bli_info_get_version_str() + ", kernel " +
         bli_arch_string(bli_arch_query_id());
#else
  return "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + '.' + std::to_string(EIGEN_MAJOR_VERSION) + '.' +
         std::to_string(EIGEN_MINOR_VERSION);
#endif
}

}  // namespace

std::string blas_description() {
#ifdef FLUXFORMER_XSMM
  return "libxsmm " LIBXSMM_CONFIG_VERSION ", kernels " + std::string(libxsmm_get_target_arch()) + "; " +
         library_description();
#else
  return library_description();
#endif
}

std::string openblas_warning(const char* asked, std::string_view kernel, bool processor_has_avx512) {
  for (const std::string_view old : {"Prescott", "Core2", "Generic"})
    if (kernel == old && processor_has_avx512)
      return "OpenBLAS uses its " + std::string(kernel) +
             " kernels, a third as fast as those of this processor, which it does not know: set "
             "OPENBLAS_CORETYPE=SkylakeX.";
  if (asked == nullptr || !processor_has_avx512) return {};
  for (const std::string_view wide : {"SkylakeX", "Cooperlake", "SapphireRapids"}) {
    if (kernel == wide) return {};
  }
  return "OPENBLAS_CORETYPE=" + std::string(asked) + " in the environment makes OpenBLAS use its " +
         std::string(kernel) +
         " kernels although this processor has AVX-512; products in float may run at half speed. Unset it.";
}

std::string blas_warning() {
#if defined(FLUXFORMER_OPENBLAS) && defined(__x86_64__)
  return openblas_warning(std::getenv("OPENBLAS_CORETYPE"), openblas_get_corename(),
                          __builtin_cpu_supports("avx512f") != 0);
#else
  return {};
#endif
}

template <class T>
double product_rate(int side, MPI_Comm comm) {
  constexpr int trials = 15;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix a = Matrix::Constant(side, side, T(1) / T(3)), b = Matrix::Constant(side, side, T(2) / T(3));
  Matrix c(side, side);
  double best = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < trials; ++trial) {
    // All ranks of a node multiply at the same time, as in a run: they share its memory and its power.
    check_mpi(MPI_Barrier(comm));
    const double start = MPI_Wtime();
    c.noalias() = a * b;
    best = std::min(best, MPI_Wtime() - start);
  }
  // A product of matrices of n x n takes n^3 multiplications and as many additions. The fastest trial was
  // disturbed least.
  const double edge = side;
  return 2 * edge * edge * edge / best;
}

template double product_rate<float>(int, MPI_Comm);
template double product_rate<double>(int, MPI_Comm);

}  // namespace fluxformer
