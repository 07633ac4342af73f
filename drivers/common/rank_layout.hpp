#pragma once

// How the ranks of an experiment that shares samples are arranged.

#include <mpi.h>

#include "base/handle.hpp"
#include "model/sample_set.hpp"
#include "training/training_ranks.hpp"

namespace fluxformer {

/// Consecutive ranks form a token line, consecutive lines the stages of depth; samples are distributed over groups of these.
struct RankLayout {
  /// Lines of mesh.ranks_token = `ranks_token` ranks, mesh.ranks_depth = `ranks_depth` of them in a group. Collective. Throws
  /// BadInput, naming the keys, unless their product divides the number of ranks.
  RankLayout(MPI_Comm comm, int ranks_token, int ranks_depth = 1);
  /// Of all ranks of `comm`, that of the constructor.
  TrainingRanks of_training(MPI_Comm comm) const;

  Replica replica;
  int stages, stage;  ///< of depth: how many, and which this rank has, from 0
  Communicator line;

 private:
  Communicator same_stage_, depth_;  // none without stages
};

}  // namespace fluxformer
