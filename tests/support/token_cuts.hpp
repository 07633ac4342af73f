#pragma once

// All ways to cut a lattice of tokens into as many parts as there are ranks.

#include <mpi.h>

#include <vector>

#include "mesh/token_line.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::test {

/// The first `ranks` ranks; the others stay out when a lattice cannot be cut into as many parts as there are
/// ranks.
struct SubLine {
  explicit SubLine(int ranks) : takes_part(rank_in(MPI_COMM_WORLD) < ranks) {
    MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, 0, &comm);
  }
  SubLine(const SubLine&) = delete;
  SubLine& operator=(const SubLine&) = delete;
  ~SubLine() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
  bool takes_part;
  MPI_Comm comm = MPI_COMM_NULL;
};

/// Parts of very different sizes: all but one part hold one token.
inline std::vector<int> lopsided(int tokens, int parts) {
  std::vector<int> sizes(static_cast<std::size_t>(parts), 1);
  sizes[static_cast<std::size_t>(parts / 2)] += tokens - parts;
  return sizes;
}

/// Every way to cut the lattice into `parts`, even and lopsided.
inline std::vector<TokenLine> every_cut(MPI_Comm comm, int parts, int x, int y) {
  std::vector<TokenLine> lines;
  for (int px = 1; px <= parts; ++px) {
    const int py = parts / px;
    if (px * py != parts || px > x || py > y) continue;
    lines.push_back(TokenLine::even(comm, x, y, px, py));
    lines.emplace_back(comm, lopsided(x, px), lopsided(y, py), false);
  }
  return lines;
}

/// f(line) for every cut into as many parts as there are ranks and tokens for; collective over each line.
template <class F>
void for_every_cut(int x, int y, F&& f) {
  const auto fits = [&](int parts) {
    for (int px = 1; px <= parts; ++px)
      if (parts % px == 0 && px <= x && parts / px <= y) return true;
    return false;
  };
  int parts = size_of(MPI_COMM_WORLD);
  while (parts > 1 && !fits(parts)) --parts;
  const SubLine sub(parts);
  if (!sub.takes_part) return;
  for (const TokenLine& line : every_cut(sub.comm, parts, x, y)) f(line);
}

}  // namespace fluxformer::test
