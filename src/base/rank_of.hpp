#pragma once

// The rank of this process in a communicator, and the number of ranks.

#include <mpi.h>

#include "base/error.hpp"

namespace fluxformer {

/// `RankOf(comm).rank`, `RankOf(comm).root()`: of any communicator, owned (`Communicator`) or not.
struct RankOf {
  /// Asks MPI; no communication.
  explicit RankOf(MPI_Comm comm) {
    check_mpi(MPI_Comm_rank(comm, &rank));
    check_mpi(MPI_Comm_size(comm, &ranks));
  }
  bool root() const { return rank == 0; }
  int rank = 0, ranks = 1;
};

}  // namespace fluxformer
