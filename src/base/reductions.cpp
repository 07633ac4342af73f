#include "base/reductions.hpp"

#include <algorithm>
#include <cstddef>

#include "base/phases.hpp"
#include "base/rank_of.hpp"

namespace fluxformer {
namespace {

void reduce(std::span<double> numbers, MPI_Op operation, MPI_Comm comm) {
  if (RankOf(comm).ranks == 1) return;
  const InPhase phase(Phase::reduction);
  constexpr std::size_t at_once = std::size_t{1} << 30;  // MPI counts in int
  for (; !numbers.empty(); numbers = numbers.subspan(std::min(at_once, numbers.size()))) {
    const std::size_t count = std::min(at_once, numbers.size());
    check_mpi(
        MPI_Allreduce(MPI_IN_PLACE, numbers.data(), static_cast<int>(count), MPI_DOUBLE, operation, comm));
    count_message(count * sizeof(double));
  }
}

}  // namespace

void sum_over_ranks(std::span<double> numbers, MPI_Comm comm) {
  reduce(numbers, MPI_SUM, comm);
}

void largest_over_ranks(std::span<double> numbers, MPI_Comm comm) {
  reduce(numbers, MPI_MAX, comm);
}

}  // namespace fluxformer
