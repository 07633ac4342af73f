#pragma once

// How the ranks of an experiment that shares samples are arranged.

#include <mpi.h>

#include "base/handle.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// Consecutive ranks form a token line; samples are distributed over lines.
struct RankLayout {
  /// Lines of mesh.ranks_token = `ranks_token` ranks. Collective. Throws BadInput, naming the key, unless it divides
  /// the number of ranks.
  RankLayout(MPI_Comm comm, int ranks_token);
  Replica replica;
  Communicator line;
};

}  // namespace fluxformer
