#pragma once

// The tokens of one depth cell: a line (texts) or a grid of patches (images), distributed over the ranks of
// one communicator. Operators within a depth cell know nothing else of the mesh.

#include <mpi.h>

#include <vector>

#include "base/handle.hpp"
#include "base/index.hpp"

namespace fluxformer {

/// The rectangle of tokens that one rank holds: columns x0 .. x0+nx-1, rows y0 .. y0+ny-1.
struct TokenBlock {
  int x0 = 0, nx = 0, y0 = 0, ny = 0;
  int count() const { return nx * ny; }
};

/// Rows received from the neighbours: `west` holds ny token rows (each samples * width numbers), `north` nx
/// of them (y - 1), and so on. A vector is empty if there is no neighbour on that side (the boundary of the
/// lattice).
struct TokenHalo {
  std::vector<double> west, east, north, south;
};

/// The distribution of tokens. A rank numbers its tokens row by row within its block; the global index of a
/// token is y * tokens_x + x (on a line, its position), which causal masks compare.
class TokenLine {
 public:
  /// Collective over `comm`, which is duplicated. Ranks form a px x py grid, rank = ry * px + rx; `columns`
  /// and `rows` are the numbers of tokens per grid column and row (as DMDAGetOwnershipRanges gives them).
  /// Throws BadInput if a part is empty, or if px * py is not the size of `comm`.
  TokenLine(MPI_Comm comm, std::vector<int> columns, std::vector<int> rows, bool periodic);
  /// A lattice that is split as evenly as possible over px x py ranks. Collective; errors as for the
  /// constructor.
  static TokenLine even(MPI_Comm comm, int tokens_x, int tokens_y, int px = 1, int py = 1,
                        bool periodic = false);
  /// Tokens in a row of a line of `tokens` of them, on one rank: the first `count`, until they are moved.
  /// Operators see no token outside, but positions count from the beginning of the line. Collective over
  /// `comm`, which must have one rank. Throws BadInput unless 0 < count <= tokens.
  static TokenLine stretch(MPI_Comm comm, int tokens, int count);
  /// Moves a stretch to the tokens from `first` on, which must be there. Not collective.
  void move_to(int first) { blocks_.front().x0 = first; }

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return px_ * py_; }
  int tokens_x() const { return tokens_x_; }
  int tokens_y() const { return tokens_y_; }
  int tokens() const { return tokens_x_ * tokens_y_; }
  bool periodic() const { return periodic_; }
  /// The tokens of this rank.
  const TokenBlock& block() const { return blocks_[rank_]; }
  /// The tokens of any rank of the line.
  const TokenBlock& block(int rank) const { return blocks_[rank]; }
  /// Global index of token `local` of `rank`.
  int global_index(int rank, int local) const;
  /// The rank to the west (-1, 0), east (1, 0), north (0, -1) or south (0, 1); -1 beyond the boundary and
  /// along a periodic axis of one token (which would be its own neighbour, so that no flux passes).
  int neighbour(int dx, int dy) const;

  /// Begins to send the edges of every rank's slab, `row` numbers per token, to the neighbours. `slab` and
  /// `halo` must not change before end_halo. One exchange at a time. Collective over the line.
  void begin_halo(const double* slab, Index row, TokenHalo& halo) const;
  /// Waits for the exchange that begin_halo began. Collective over the line.
  void end_halo() const;
  /// A halo of zeros in the shape that begin_halo receives, for a transposed stencil to add to.
  TokenHalo zero_halo(Index row) const;
  /// Transposes begin_halo and end_halo: adds the neighbours' halos (filled by a transposed stencil) to the
  /// edges of `slab`. Collective over the line.
  void add_halo_to_owners(const TokenHalo& halo, Index row, double* slab) const;

 private:
  Communicator comm_;
  int rank_, px_, py_, tokens_x_, tokens_y_;
  bool periodic_;
  std::vector<TokenBlock> blocks_;
  mutable std::vector<MPI_Request> requests_;
  mutable std::vector<double> edge_[4];  ///< edges to send, or received by the transposed exchange
};

}  // namespace fluxformer
