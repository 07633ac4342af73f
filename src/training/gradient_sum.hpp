#pragma once

// Sums gradients over ranks, in buckets that are sent while the backward pass is still running.

#include <mpi.h>

#include <span>
#include <vector>

namespace fluxformer {

/// Non-blocking sums of buckets, so that messages travel while gradients are computed.
class GradientSum {
 public:
  /// `bucket`: how many numbers are sent together at least (the last bucket may be smaller).
  GradientSum(MPI_Comm comm, std::size_t bucket);

  /// Entries first .. first + count - 1 of `gradient` are this rank's share and final. Adjacent pieces are
  /// merged. Collective over `comm`: every rank passes the same pieces in the same order. `gradient` must not
  /// move before `finish`.
  void add(std::span<double> gradient, std::size_t first, std::size_t count);
  /// Completes the sums: all pieces since the last `finish` now hold the sum, on every rank. Collective.
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
