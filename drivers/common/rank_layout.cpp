#include "drivers/common/rank_layout.hpp"

#include <string>

#include "base/error.hpp"
#include "base/rank_of.hpp"

namespace fluxformer {
namespace {

Replica checked_replica(MPI_Comm comm, int ranks_token) {
  const int ranks = RankOf(comm).ranks;
  if (ranks % ranks_token != 0)
    throw BadInput("mesh.ranks_token = " + std::to_string(ranks_token) +
                   ": must divide the number of ranks, " + std::to_string(ranks));
  return replica_of(comm, ranks_token);
}

Communicator split(MPI_Comm comm, int colour, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, colour, key, &part));
  return Communicator(part);
}

}  // namespace

RankLayout::RankLayout(MPI_Comm comm, int ranks_token)
    : replica(checked_replica(comm, ranks_token)), line(split(comm, replica.index, RankOf(comm).rank)) {}

}  // namespace fluxformer
