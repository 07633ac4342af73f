#pragma once

// The numbers of ranks along depth and along the two token axes.

#include <string>

namespace fluxformer {

/// The lattice to distribute: M depth cells of tokens_x x tokens_y tokens.
struct Lattice {
  int cells = 1;
  int tokens_x = 1;
  int tokens_y = 1;
};

/// Ranks along x (patch columns), y (patch rows) and depth.
struct ProcessGrid {
  int x = 1;
  int y = 1;
  int depth = 1;
  int token() const { return x * y; }
  int size() const { return x * y * depth; }
};

/// Token rows (samples * width numbers each) that the busiest rank receives per evaluation of the right-hand
/// side:
///
///   min(2, depth - 1) t                         a slab from each depth neighbour
///   + m (2 (n - t))                             keys and values of all other tokens, in each of its cells
///   + m (2 ny [x > 1] + 2 nx [y > 1])           edges for token diffusion, in each of its cells
///
/// with m = ceil(M / depth) cells, nx = ceil(tokens_x / x), ny = ceil(tokens_y / y), t = nx ny and
/// n = tokens_x tokens_y. With at least as many cells as ranks it is least for a split over depth alone.
double communication(const Lattice& lattice, const ProcessGrid& grid);

/// The grid of `ranks` ranks with the least communication among those with `ranks_depth` and `ranks_token`
/// (0: any); among equals, the one with most ranks along depth, then along y. Every rank needs a cell and a
/// token: throws BadInput, naming the key, if there is no such grid. Not collective: every rank gets the same
/// answer.
ProcessGrid choose_process_grid(int ranks, const Lattice& lattice, int ranks_depth = 0, int ranks_token = 0);

}  // namespace fluxformer
