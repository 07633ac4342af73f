#include "drivers/common/stop_request.hpp"

#include "base/error.hpp"
#include "base/session.hpp"

namespace fluxformer {

bool StopRequest::asked() {
  if (const int signal = stop_signal(comm_); signal != 0) {
    reason_ = "signal " + std::to_string(signal);
    return true;
  }
  if (limit_ == 0) return false;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  int over = since.count() >= limit_ ? 1 : 0;
  check_mpi(MPI_Bcast(&over, 1, MPI_INT, 0, comm_));  // rank 0's clock decides
  if (over != 0) reason_ = "run.time_limit";
  return over != 0;
}

}  // namespace fluxformer
