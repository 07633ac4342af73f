#pragma once

// The ranks of a training: groups that share the samples, each of them in stages of depth, each of these a
// token line. The ranks of a token line are neighbours.

#include <mpi.h>

namespace fluxformer {

/// The communicators of a training, borrowed.
struct TrainingRanks {
  MPI_Comm all = MPI_COMM_WORLD;
  MPI_Comm stage = MPI_COMM_WORLD;  ///< the ranks with the same cells: groups x token line
  MPI_Comm depth =
      MPI_COMM_SELF;  ///< the ranks with the same samples and tokens, in the order of their stages

  static TrainingRanks without_stages(MPI_Comm all) { return {all, all, MPI_COMM_SELF}; }
};

}  // namespace fluxformer
