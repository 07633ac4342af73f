#pragma once

// Sums gradients over ranks, in buckets that are sent while the backward pass is still running.

#include <mpi.h>

#include <span>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {

/// Sums a gradient over ranks in buckets, by non-blocking messages that travel while the rest is computed.
class GradientSum {
 public:
  /// `bucket` is the least number of entries that are sent together (the last bucket may be smaller).
  GradientSum(MPI_Comm comm, Index bucket);

  /// Entries first .. first + count - 1 of `gradient` are this rank's share and final. Adjacent pieces are
  /// merged. Collective over `comm`: every rank passes the same pieces in the same order. `gradient` must not
  /// move before `finish`.
  void add(std::span<double> gradient, Index first, Index count);
  /// Completes the sums: all pieces since the last `finish` now hold the sum, on every rank. Collective.
  void finish();

 private:
  void send();
  MPI_Comm comm_;
  int ranks_ = 1;
  Index bucket_;
  double* data_ = nullptr;
  Index first_ = 0, count_ = 0;  // the entries that wait to be sent
  std::vector<MPI_Request> requests_;
};

}  // namespace fluxformer
