#include "drivers/common/rank_layout.hpp"

#include <string>

#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

Replica checked_replica(MPI_Comm comm, int ranks_token, int stages) {
  const int ranks = mpi::size(comm);
  const std::string tokens = "mesh.ranks_token = " + std::to_string(ranks_token);
  if (ranks_token > ranks || stages > ranks || ranks % (ranks_token * stages) != 0)
    throw BadInput((stages == 1 ? tokens + ": must divide"
                                : "mesh.ranks_depth = " + std::to_string(stages) + ", " + tokens +
                                      ": their product must divide") +
                   " the number of ranks, " + std::to_string(ranks));
  return replica_of(comm, ranks_token * stages);
}

Communicator split(MPI_Comm comm, int colour) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, colour, mpi::rank(comm), &part));
  return Communicator(part);
}

}  // namespace

RankLayout::RankLayout(MPI_Comm comm, int ranks_token, int ranks_depth)
    : replica(checked_replica(comm, ranks_token, ranks_depth)),
      stages(ranks_depth),
      stage(mpi::rank(comm) / ranks_token % ranks_depth),
      line(split(comm, mpi::rank(comm) / ranks_token)) {
  if (stages == 1) return;
  same_stage_ = split(comm, stage);
  depth_ = split(comm, replica.index * ranks_token + mpi::rank(line));
}

TrainingRanks RankLayout::of_training(MPI_Comm comm) const {
  if (stages == 1) return TrainingRanks::without_stages(comm);
  return {comm, same_stage_, depth_};
}

}  // namespace fluxformer
