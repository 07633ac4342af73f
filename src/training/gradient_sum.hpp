#pragma once

// The sum of the ranks' gradients, in buckets that travel while the backward pass goes on.

#include <mpi.h>

#include <span>
#include <vector>

namespace fluxformer {

class GradientSum {
 public:
  /// `bucket`: numbers that are sent together, at least (the last of a gradient may be smaller).
  GradientSum(MPI_Comm comm, std::size_t bucket);

  /// Entries first .. first + count - 1 of `gradient` are this rank's share and will not change; neighbouring
  /// pieces are sent as one. Collective over `comm` in the sense that every rank calls it with the same
  /// pieces in the same order. `gradient` must stay where it is until `finish`.
  void add(std::span<double> gradient, std::size_t first, std::size_t count);
  /// All pieces given since the last `finish` hold the sum on every rank. Collective.
  void finish();

 private:
  void send();
  MPI_Comm comm_;
  int ranks_ = 1;
  std::size_t bucket_;
  double* data_ = nullptr;
  std::size_t first_ = 0, count_ = 0;  // waiting to be sent
  std::vector<MPI_Request> requests_;
};

}  // namespace fluxformer
