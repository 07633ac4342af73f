#pragma once

// Whether a run should stop early: because of a signal or its wall-time limit.

#include <mpi.h>

#include <chrono>
#include <string>

namespace fluxformer {

class StopRequest {
 public:
  /// Starts the clock. `limit` in seconds, 0: none.
  StopRequest(MPI_Comm comm, double limit) : comm_(comm), limit_(limit) {}
  /// The same answer on all ranks. Collective.
  bool asked();
  /// The reason after `asked` returned true: "signal 15", "run.time_limit".
  const std::string& reason() const { return reason_; }

 private:
  MPI_Comm comm_;
  double limit_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string reason_;
};

}  // namespace fluxformer
