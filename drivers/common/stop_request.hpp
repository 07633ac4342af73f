#pragma once

// Whether a run should end before it is done: a signal, or the wall time it was given.

#include <mpi.h>

#include <chrono>
#include <string>

namespace fluxformer {

class StopRequest {
 public:
  /// Time counts from here. `limit` in seconds, 0: none.
  StopRequest(MPI_Comm comm, double limit) : comm_(comm), limit_(limit) {}
  /// The same answer on all ranks. Collective.
  bool asked();
  /// After `asked` said so: "signal 15", "run.time_limit".
  const std::string& reason() const { return reason_; }

 private:
  MPI_Comm comm_;
  double limit_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string reason_;
};

}  // namespace fluxformer
