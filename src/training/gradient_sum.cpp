#include "training/gradient_sum.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "base/phases.hpp"

namespace fluxformer {

GradientSum::GradientSum(MPI_Comm comm, Index bucket) : comm_(comm), bucket_(bucket) {
  check_mpi(MPI_Comm_size(comm, &ranks_));
}

void GradientSum::add(std::span<double> gradient, Index first, Index count) {
  if (ranks_ == 1) return;
  data_ = gradient.data();
  if (count_ > 0 && first + count == first_) {  // pieces come in order from the end of the vector
    first_ = first;
    count_ += count;
  } else {
    send();
    first_ = first;
    count_ = count;
  }
  // Small pieces are collected: a message costs its latency, whatever its size.
  if (count_ >= bucket_) send();
  if (requests_.empty()) return;
  const InPhase phase(Phase::reduction);
  int all = 0;  // Open MPI makes progress only inside calls
  check_mpi(MPI_Testall(requests_.size(), requests_.data(), &all, MPI_STATUSES_IGNORE));
  if (all != 0) requests_.clear();
}

void GradientSum::send() {
  const InPhase phase(Phase::reduction);
  // MPI counts are ints: a very large piece is sent in parts.
  constexpr Index most = std::numeric_limits<int>::max() / 2;
  for (; count_ > 0;) {
    const Index part = std::min(count_, most);
    requests_.emplace_back();
    check_mpi(
        MPI_Iallreduce(MPI_IN_PLACE, data_ + first_, part, MPI_DOUBLE, MPI_SUM, comm_, &requests_.back()));
    count_message(part * sizeof(double));
    first_ += part;
    count_ -= part;
  }
}

void GradientSum::finish() {
  const InPhase phase(Phase::reduction);
  send();
  check_mpi(MPI_Waitall(requests_.size(), requests_.data(), MPI_STATUSES_IGNORE));
  requests_.clear();
}

}  // namespace fluxformer
