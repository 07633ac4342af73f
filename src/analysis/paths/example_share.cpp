#include "analysis/paths/example_share.hpp"

#include <algorithm>

#include "base/mpi.hpp"

namespace fluxformer::paths {

int ExampleShare::count(int all) const {
  const int blocks = all / block, behind = blocks % ranks;
  return blocks / ranks * block + (rank < behind ? block : 0) + (rank == behind ? all % block : 0);
}

std::vector<int> ExampleShare::examples(int all) const {
  std::vector<int> held(count(all));
  for (int row = 0; auto& one : held) one = example(row++);
  return held;
}

ExampleShare share_of(MPI_Comm comm, int examples) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  constexpr int most = ExampleShare{}.block;
  return {.rank = rank, .ranks = ranks, .block = std::clamp((examples + ranks - 1) / ranks, 1, most)};
}

}  // namespace fluxformer::paths
