#pragma once

// The depth x token mesh: a 3-D DMDA with x = patch column, y = patch row, z = depth cell, and
// samples * width numbers per point.

#include <cstddef>
#include <vector>

#include "base/handle.hpp"
#include "mesh/process_grid.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer {

/// The keys mesh.*, with the sizes that data and model decide.
struct MeshSpec {
  int cells = 1;          ///< M, through depth
  int tokens_x = 1;       ///< patch columns; on a line, its length
  int tokens_y = 1;       ///< patch rows; on a line, 1
  int samples = 1;        ///< inputs solved simultaneously
  int width = 1;          ///< channels
  int ranks_depth = 0;    ///< 0: chosen
  int ranks_token = 0;    ///< 0: chosen
  bool periodic = false;  ///< the token lattice is periodic
};

/// The state on this mesh is a PETSc vector; a rank's part of it is contiguous [cell][y][x][sample][channel],
/// one slab (operators/slab.hpp) per cell. Cells are numbered 1..M through depth.
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

  /// This rank's first cell; its number of cells; M.
  int first_cell() const { return first_cell_; }
  int cells() const { return cells_; }
  int total_cells() const { return spec_.cells; }
  /// First cell of each rank of the depth line, followed by M + 1.
  const std::vector<int>& cell_starts() const { return cell_starts_; }
  /// Numbers in a slab of this rank: its tokens * samples * width.
  std::size_t slab_size() const;

  /// A state, filled with 0. Collective over comm().
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
