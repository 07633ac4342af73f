#include "operators/kernels/product_benchmark.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace fluxformer {

template <class T>
double product_rate(int side, MPI_Comm comm) {
  constexpr int trials = 15;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix a = Matrix::Constant(side, side, T(1) / T(3)), b = Matrix::Constant(side, side, T(2) / T(3));
  Matrix c(side, side);
  double best = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < trials; ++trial) {
    check_mpi(MPI_Barrier(comm));
    const double start = MPI_Wtime();
    c.noalias() = a * b;
    best = std::min(best, MPI_Wtime() - start);
  }
  const double edge = side;
  return 2 * edge * edge * edge / best;
}

template double product_rate<float>(int, MPI_Comm);
template double product_rate<double>(int, MPI_Comm);

}  // namespace fluxformer
