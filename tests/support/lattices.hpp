#pragma once

// Every way to distribute a lattice over the ranks of a test.

#include <vector>

#include "mesh/mesh.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::test {

/// Whether `ranks` can be written px * py with px <= tokens_x and py <= tokens_y.
inline bool can_be_cut(int ranks, int tokens_x, int tokens_y) {
  for (int px = 1; px <= tokens_x; ++px)
    if (ranks % px == 0 && ranks / px <= tokens_y) return true;
  return false;
}

/// `spec` with each pair (ranks_depth, ranks_token) that uses all ranks of `comm`.
inline std::vector<MeshSpec> every_split(MPI_Comm comm, MeshSpec spec) {
  const int size = size_of(comm);
  std::vector<MeshSpec> splits;
  for (int depth = 1; depth <= size; ++depth) {
    if (size % depth != 0 || depth > spec.cells || !can_be_cut(size / depth, spec.tokens_x, spec.tokens_y))
      continue;
    spec.ranks_depth = depth;
    spec.ranks_token = size / depth;
    splits.push_back(spec);
  }
  return splits;
}

}  // namespace fluxformer::test
