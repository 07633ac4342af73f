#pragma once

// The mesh of depth cells and tokens, and its distribution over a process grid. It is a three-dimensional
// DMDA of PETSc: x = patch column, y = patch row, z = depth cell, with samples * width numbers at each point.

#include <string>
#include <vector>

#include "base/handle.hpp"
#include "base/index.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer {

/// The lattice to distribute: M depth cells of tokens_x x tokens_y tokens.
struct Lattice {
  int cells = 1;
  int tokens_x = 1;
  int tokens_y = 1;
};

/// Numbers of ranks along x (patch columns), y (patch rows) and depth.
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
/// with m = ceil(M / depth) cells, nx = ceil(tokens_x / x), ny = ceil(tokens_y / y), t = nx ny and n =
/// tokens_x tokens_y. If there are at least as many cells as ranks, a split over depth alone needs the least.
double communication(const Lattice& lattice, const ProcessGrid& grid);

/// Chooses the grid of `ranks` ranks with the least communication among those with `ranks_depth` and
/// `ranks_token` (0: any); among equals, the one with most ranks along depth, then along y. Every rank needs
/// a cell and a token: throws BadInput, naming the key, if there is no such grid. Not collective: every rank
/// gets the same answer.
ProcessGrid choose_process_grid(int ranks, const Lattice& lattice, int ranks_depth = 0, int ranks_token = 0);

/// The values of the keys mesh.*, with the sizes that data and model decide.
struct MeshSpec {
  int cells = 1;          ///< M, the number of depth cells
  int tokens_x = 1;       ///< patch columns; for a text, its length
  int tokens_y = 1;       ///< patch rows; for a text, 1
  int samples = 1;        ///< inputs solved simultaneously
  int width = 1;          ///< channels
  int ranks_depth = 0;    ///< ranks along depth; 0: chosen by the program
  int ranks_token = 0;    ///< ranks along the tokens; 0: chosen by the program
  bool periodic = false;  ///< true if the token lattice is periodic
};

/// The distributed mesh. A state on it is a PETSc vector; a rank's part of the state is contiguous
/// [cell][y][x][sample][channel], one slab (operators/slab.hpp) per cell. Cells are numbered 1..M through
/// depth.
class Mesh {
 public:
  /// Collective over `comm`, which is duplicated. Throws BadInput (on every rank) if a size is below 1, the
  /// ranks cannot share the lattice, or the state has more numbers than PETSc can index.
  Mesh(MPI_Comm comm, const MeshSpec& spec);

  const MeshSpec& spec() const { return spec_; }
  const ProcessGrid& grid() const { return grid_; }
  DM dm() const { return dm_; }
  MPI_Comm comm() const { return comm_; }
  /// The ranks with the same depth cells as this one, and their tokens.
  const TokenLine& token_line() const { return line_; }
  /// The ranks with the same tokens as this one, in the order of depth.
  MPI_Comm depth_line() const { return depth_line_; }

  /// Number of this rank's first cell, 1 .. M.
  int first_cell() const { return first_cell_; }
  /// Number of cells that this rank holds.
  int cells() const { return cells_; }
  /// M, the number of cells of all ranks.
  int total_cells() const { return spec_.cells; }
  /// First cell of each rank of the depth line, followed by M + 1.
  const std::vector<int>& cell_starts() const { return cell_starts_; }
  /// Numbers in a slab of this rank: its tokens * samples * width.
  Index slab_size() const;

  /// Creates a state, filled with 0. Collective over comm().
  VecHandle create_vector() const;

 private:
  MeshSpec spec_;
  Communicator comm_;
  ProcessGrid grid_;
  DMHandle dm_;
  TokenLine line_;
  Communicator depth_line_;
  int first_cell_ = 1, cells_ = 0;
  std::vector<int> cell_starts_;
};

}  // namespace fluxformer
