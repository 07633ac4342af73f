#pragma once

// Which rank this is, of how many.

#include <mpi.h>

#include "base/error.hpp"

namespace fluxformer {

struct RankOf {
  explicit RankOf(MPI_Comm comm) {
    check_mpi(MPI_Comm_rank(comm, &rank));
    check_mpi(MPI_Comm_size(comm, &ranks));
  }
  bool root() const { return rank == 0; }
  int rank = 0, ranks = 1;
};

}  // namespace fluxformer
