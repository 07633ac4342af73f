#pragma once

// The arrangement of the ranks of an experiment that shares samples.

#include <mpi.h>

#include "base/handle.hpp"
#include "model/sample_set.hpp"
#include "training/training_ranks.hpp"

namespace fluxformer {

/// Token lines, stages of depth and groups: consecutive ranks form a token line, consecutive lines the stages
/// of depth; samples are distributed over groups of these.
struct RankLayout {
  /// Makes lines of mesh.ranks_token = `ranks_token` ranks, mesh.ranks_depth = `ranks_depth` lines in a
  /// group. Collective. Throws BadInput, naming the keys, unless the product of both divides the number of
  /// ranks.
  RankLayout(MPI_Comm comm, int ranks_token, int ranks_depth = 1);
  /// The layout as a training needs it, on `comm`, the communicator given to the constructor.
  TrainingRanks of_training(MPI_Comm comm) const;

  Replica replica;
  int stages, stage;  ///< number of stages of depth, and the one of this rank, from 0
  Communicator line;

 private:
  Communicator same_stage_, depth_;  // null without stages
};

}  // namespace fluxformer
