#include "operators/attention/token_ring.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.hpp"
#include "base/phases.hpp"

namespace fluxformer {

namespace {

constexpr int block_tag = 7301;
constexpr int bar_tag = 7302;

template <class T>
MPI_Datatype mpi_type() {
  return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
}

/// Every rank looks at the largest block of the line, so that all refuse or none.
void refuse_long_messages(const TokenLine& line, Index per_token) {
  Index most = 0;
  for (int rank = 0; rank < line.size(); ++rank) most = std::max(most, Index{line.block(rank).count()});
  if (most * per_token > std::numeric_limits<int>::max())
    throw BadInput("the tokens of one rank do not fit in one MPI message: use more ranks per token line");
}

}  // namespace

template <class T>
const T* TokenRing<T>::begin_exchange(int step, const T* present, Index per_token) {
  const InPhase phase(Phase::ring);
  // At step k this rank passes the block of rank - k on to rank + 1 and receives that of rank - k - 1. Two
  // buffers take turns: one is read by the visitor and sent on, the other receives.
  auto& arriving = arriving_[step % 2];
  arriving.resize(line_.block(visited(step + 1)).count() * per_token);
  const Index leaving = line_.block(visited(step)).count() * per_token;
  check_mpi(MPI_Irecv(arriving.data(), arriving.size(), mpi_type<T>(), before(), block_tag, line_.comm(),
                      &requests_[0]));
  check_mpi(MPI_Isend(present, leaving, mpi_type<T>(), after(), block_tag, line_.comm(), &requests_[1]));
  count_message(leaving * sizeof(T));
  return arriving.data();
}

template <class T>
void TokenRing<T>::end_exchange() {
  const InPhase phase(Phase::ring);
  check_mpi(MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE));
}

template <class T>
void TokenRing<T>::progress() {
  if (requests_[0] == MPI_REQUEST_NULL && requests_[1] == MPI_REQUEST_NULL) return;
  const InPhase phase(Phase::ring);
  // A completed request becomes null, and testing it again does nothing.
  for (MPI_Request& request : requests_) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  }
}

template <class T>
void TokenRing<T>::visit(const T* own, Index per_token, const Visit& visitor) {
  refuse_long_messages(line_, per_token);
  const T* present = own;
  for (int step = 0; step < steps_; ++step) {
    const bool more = step + 1 < steps_;
    const T* next = more ? begin_exchange(step, present, per_token) : nullptr;
    // The visitor works on this block while the next one arrives.
    visitor(visited(step), present);
    if (more) end_exchange();
    present = next;
  }
}

template <class T>
void TokenRing<T>::visit_and_collect(const T* own, Index per_token, Index bar_per_token,
                                     const VisitBack& visitor, T* own_bar) {
  refuse_long_messages(line_, std::max(per_token, bar_per_token));
  if (steps_ == 1) {
    // A rank that no other one visits adds to its sums directly.
    visitor(line_.rank(), own, own_bar);
    return;
  }
  // The accumulator of a block starts at its owner and follows it one step behind: the sum of earlier ranks
  // arrives while this rank computes its own share in another buffer.
  const T* present = own;
  MPI_Request leaving = MPI_REQUEST_NULL;
  for (int step = 0; step < steps_; ++step) {
    const bool more = step + 1 < steps_;
    const Index bar_size = line_.block(visited(step)).count() * bar_per_token;
    const T* next = more ? begin_exchange(step, present, per_token) : nullptr;
    MPI_Request collected = MPI_REQUEST_NULL;
    if (step > 0) {
      collected_.resize(bar_size);
      check_mpi(
          MPI_Irecv(collected_.data(), bar_size, mpi_type<T>(), before(), bar_tag, line_.comm(), &collected));
    }
    auto& bar = bar_[step % 2];
    bar.assign(bar_size, T(0));
    visitor(visited(step), present, bar.data());
    const InPhase phase(Phase::ring);
    // bar := the sum of the ranks before this one, plus this rank's share; on to the next rank, or home.
    if (step > 0) {
      check_mpi(MPI_Wait(&collected, MPI_STATUS_IGNORE));
      for (Index i = 0; i < bar_size; ++i) bar[i] += collected_[i];
    }
    check_mpi(MPI_Wait(&leaving, MPI_STATUS_IGNORE));
    const int to = more ? after() : visited(step);
    check_mpi(MPI_Isend(bar.data(), bar_size, mpi_type<T>(), to, bar_tag, line_.comm(), &leaving));
    count_message(bar_size * sizeof(T));
    if (more) end_exchange();
    present = next;
  }
  // The sum for this rank's own block returns to it, from the last rank that it visited.
  const InPhase phase(Phase::ring);
  const int last = (line_.rank() + steps_ - 1) % line_.size();
  collected_.resize(line_.block().count() * bar_per_token);
  check_mpi(MPI_Recv(collected_.data(), collected_.size(), mpi_type<T>(), last, bar_tag, line_.comm(),
                     MPI_STATUS_IGNORE));
  check_mpi(MPI_Wait(&leaving, MPI_STATUS_IGNORE));
  for (Index i = 0; i < std::ssize(collected_); ++i) own_bar[i] += collected_[i];
}

template <class T>
std::size_t TokenRing<T>::bytes() const {
  return sizeof(T) * (arriving_[0].capacity() + arriving_[1].capacity() + bar_[0].capacity() +
                      bar_[1].capacity() + collected_.capacity());
}

template class TokenRing<float>;
template class TokenRing<double>;

}  // namespace fluxformer
