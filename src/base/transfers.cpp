#include "base/transfers.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace fluxformer {
namespace {

constexpr std::size_t most = std::numeric_limits<int>::max() / 2;

}  // namespace

void send_numbers(std::span<const double> numbers, int to, int tag, MPI_Comm comm) {
  for (std::size_t at = 0; at < numbers.size(); at += most)
    check_mpi(MPI_Send(numbers.data() + at, static_cast<int>(std::min(most, numbers.size() - at)), MPI_DOUBLE,
                       to, tag, comm));
}

void receive_numbers(std::span<double> numbers, int from, int tag, MPI_Comm comm) {
  for (std::size_t at = 0; at < numbers.size(); at += most)
    check_mpi(MPI_Recv(numbers.data() + at, static_cast<int>(std::min(most, numbers.size() - at)), MPI_DOUBLE,
                       from, tag, comm, MPI_STATUS_IGNORE));
}

}  // namespace fluxformer
