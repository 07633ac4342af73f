#include "base/mpi.hpp"

#include <algorithm>
#include <limits>

#include "base/phases.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t most_numbers = std::numeric_limits<int>::max() / 2;  // in one call

/// Calls `with` for each part of `numbers`, one after another.
template <class T, class With>
void in_parts(std::span<T> numbers, With&& with) {
  for (; !numbers.empty(); numbers = numbers.subspan(std::min(most_numbers, numbers.size())))
    with(numbers.first(std::min(most_numbers, numbers.size())));
}

void reduce(std::span<double> numbers, MPI_Op operation, MPI_Comm comm) {
  if (mpi::size(comm) == 1) return;
  const InPhase phase(Phase::reduction);
  in_parts(numbers, [&](std::span<double> part) {
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, part.data(), part.size(), MPI_DOUBLE, operation, comm));
    count_message(part.size_bytes());
  });
}

}  // namespace

int mpi::rank(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank));
  return rank;
}

int mpi::size(MPI_Comm comm) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size));
  return size;
}

bool mpi::is_root(MPI_Comm comm) {
  return rank(comm) == 0;
}

void sum_over_ranks(std::span<double> numbers, MPI_Comm comm) {
  reduce(numbers, MPI_SUM, comm);
}

void largest_over_ranks(std::span<double> numbers, MPI_Comm comm) {
  reduce(numbers, MPI_MAX, comm);
}

void broadcast_numbers(std::span<double> numbers, int from, MPI_Comm comm) {
  in_parts(numbers, [&](std::span<double> part) {
    check_mpi(MPI_Bcast(part.data(), part.size(), MPI_DOUBLE, from, comm));
  });
}

void send_numbers(std::span<const double> numbers, int to, int tag, MPI_Comm comm) {
  in_parts(numbers, [&](std::span<const double> part) {
    check_mpi(MPI_Send(part.data(), part.size(), MPI_DOUBLE, to, tag, comm));
  });
}

void receive_numbers(std::span<double> numbers, int from, int tag, MPI_Comm comm) {
  in_parts(numbers, [&](std::span<double> part) {
    check_mpi(MPI_Recv(part.data(), part.size(), MPI_DOUBLE, from, tag, comm, MPI_STATUS_IGNORE));
  });
}

}  // namespace fluxformer
