#pragma once

// Ghost slabs of neighbouring depth cells for the depth stencils, and the transposed exchange for adjoints.

#include <array>
#include <optional>
#include <vector>

#include "base/vector_arrays.hpp"
#include "mesh/mesh.hpp"

namespace fluxformer {

/// Exchanges over the depth line what a stencil of `below` cells upstream and `above` downstream needs. Any
/// number of cells per rank: with one cell each, the two cells upstream lie on two ranks. One exchange at a
/// time.
class DepthGhosts {
 public:
  /// `mesh` is borrowed. below: 0, 1 or 2; above: 0 or 1. Not collective.
  DepthGhosts(const Mesh& mesh, int below, int above);
  DepthGhosts(const DepthGhosts&) = delete;
  DepthGhosts& operator=(const DepthGhosts&) = delete;

  /// Whether a stencil of this rank reaches the inflow (cell 0).
  bool reaches_inflow() const { return mesh_.first_cell() <= below_; }
  /// The slab of cell 0 (slab_size numbers), borrowed; null (the default): the inflow is zero and below() is
  /// null there. Used only on ranks that reach the inflow.
  void set_inflow(const double* slab) { inflow_ = slab; }

  /// Collective over the depth line. `u`: a state of the mesh, not to be changed before end().
  void begin(Vec u);
  void end();
  /// Slab of cell first_cell - 1 - k as of the last end(); the inflow for cell 0; null below that.
  const double* below(int k) const;
  /// Slab of cell first_cell + cells; null beyond M.
  const double* above() const;

  /// The transposed exchange: clear_bars, add to *_bar, then add_to_owners (collective over the depth line)
  /// adds the sums to their cells of `u_bar`. Null where the stencil reaches nothing (below the inflow,
  /// beyond M).
  void clear_bars();
  double* below_bar(int k);
  double* above_bar();
  void add_to_owners(Vec u_bar);
  /// After add_to_owners: the sum for cell 0, on the ranks that hold cell 1; null on the others.
  const double* inflow_bar() const { return mesh_.first_cell() == 1 ? ghosts_[0].bar.data() : nullptr; }

 private:
  /// One neighbouring cell the stencil reaches; cell < 0: there is none.
  struct Ghost {
    int cell = -1;
    std::vector<double> value, bar;
  };
  /// A slab to exchange: `rank` owns the cell and this rank needs it, or the other way round. Cell 0 belongs
  /// to the owner of cell 1 and is exchanged only for adjoints.
  struct Link {
    int rank, ghost, cell;
  };
  enum { above_ghost = 2, ghost_kinds = 3 };
  int owner(int cell) const;
  void wait();
  double* bar(int ghost);

  const Mesh& mesh_;
  int below_;
  std::array<Ghost, ghost_kinds> ghosts_;  // first - 1, first - 2, first + count
  std::vector<Link> wanted_, lent_;        // this rank's ghosts; its slabs that are ghosts of others
  const double* inflow_ = nullptr;
  std::optional<ReadArray> sent_;  // between begin and end
  std::vector<MPI_Request> requests_;
};

}  // namespace fluxformer
