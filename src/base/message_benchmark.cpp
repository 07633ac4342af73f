#include "base/message_benchmark.hpp"

#include <algorithm>
#include <limits>

#include "base/rank_of.hpp"
#include "base/statistics.hpp"

namespace fluxformer {
namespace {

constexpr int trials = 15;
constexpr int in_a_row = 10;  // for a single message the other rank may be waiting already

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
