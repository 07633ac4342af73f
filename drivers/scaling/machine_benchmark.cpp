#include "drivers/scaling/machine_benchmark.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>

#include "base/rank_of.hpp"

namespace fluxformer {
namespace {

constexpr int trials = 15,
              in_a_row = 10;  // several in a row: one alone may find the other rank waiting already

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

template <class T>
double product_rate_in(int side, MPI_Comm comm) {
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

/// Of each size the median over trials of the time that `once` takes (on rank 0), after one that does not
/// count.
template <class Once>
std::vector<double> medians(const std::vector<double>& bytes, MPI_Comm comm, Once&& once) {
  std::vector<double> result;
  for (const double size : bytes) {
    std::vector<double> buffer(std::max<std::size_t>(1, static_cast<std::size_t>(size) / sizeof(double)));
    std::vector<double> times;
    for (int trial = 0; trial <= trials; ++trial) {
      check_mpi(MPI_Barrier(comm));
      const double start = MPI_Wtime();
      for (int k = 0; k < in_a_row; ++k) once(buffer);
      if (trial > 0) times.push_back((MPI_Wtime() - start) / in_a_row);
    }
    result.push_back(median(times));
  }
  check_mpi(MPI_Bcast(result.data(), static_cast<int>(result.size()), MPI_DOUBLE, 0, comm));
  return result;
}

}  // namespace

double product_rate(Precision precision, int side, MPI_Comm comm) {
  return precision == Precision::single ? product_rate_in<float>(side, comm)
                                        : product_rate_in<double>(side, comm);
}

std::vector<double> message_seconds(const std::vector<double>& bytes, MPI_Comm comm) {
  const RankOf me(comm);
  if (me.ranks == 1) return std::vector<double>(bytes.size(), std::numeric_limits<double>::quiet_NaN());
  const int last = me.ranks - 1;
  auto seconds = medians(bytes, comm, [&](std::vector<double>& buffer) {
    const int count = static_cast<int>(buffer.size());
    const auto send = [&](int to) { check_mpi(MPI_Send(buffer.data(), count, MPI_DOUBLE, to, 0, comm)); };
    const auto receive = [&](int from) {
      check_mpi(MPI_Recv(buffer.data(), count, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE));
    };
    if (me.rank == 0) send(last), receive(last);
    if (me.rank == last) receive(0), send(0);
  });
  for (double& round_trip : seconds) round_trip /= 2;
  return seconds;
}

std::vector<double> sum_seconds(const std::vector<double>& bytes, MPI_Comm comm) {
  const RankOf me(comm);
  if (me.ranks == 1) return std::vector<double>(bytes.size(), std::numeric_limits<double>::quiet_NaN());
  return medians(bytes, comm, [&](std::vector<double>& buffer) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_DOUBLE, MPI_SUM,
                            comm));
  });
}

}  // namespace fluxformer
