#pragma once

// Ghost slabs of neighbouring depth cells for the depth stencils, and the transposed exchange for adjoints.

#include <array>
#include <optional>
#include <vector>

#include "base/vector_arrays.hpp"
#include "mesh/mesh.hpp"

namespace fluxformer {

/// Exchanges slabs over the depth line for a stencil of `below` cells upstream and `above` cells downstream.
/// A rank may hold any number of cells: with one cell each, the two cells upstream lie on two ranks. One
/// exchange at a time.
class DepthGhosts {
 public:
  /// `mesh` is borrowed. below: 0, 1 or 2; above: 0 or 1. Not collective.
  DepthGhosts(const Mesh& mesh, int below, int above);
  DepthGhosts(const DepthGhosts&) = delete;
  DepthGhosts& operator=(const DepthGhosts&) = delete;

  /// True if a stencil of this rank reaches the inflow (cell 0).
  bool reaches_inflow() const { return mesh_.first_cell() <= below_; }
  /// Sets the slab of cell 0 (slab_size numbers), which is borrowed and used only on ranks that reach the
  /// inflow. With null (the default) the inflow is zero, and below() returns null for it.
  void set_inflow(const double* slab) { inflow_ = slab; }

  /// Begins to send and receive slabs of the state `u`, which must not change before end(). Collective over
  /// the depth line.
  void begin(Vec u);
  /// Waits for the slabs. Collective over the depth line.
  void end();
  /// Slab of cell first_cell - 1 - k at the last end(); the inflow for cell 0; null below the inflow.
  const double* below(int k) const;
  /// Slab of cell first_cell + cells at the last end(); null beyond M.
  const double* above() const;

  /// Begins a transposed exchange: sets the adjoint slabs of all ghosts to 0.
  void clear_bars();
  /// Adjoint slab of cell first_cell - 1 - k, to which the transposed stencil adds; null below the inflow.
  double* below_bar(int k);
  /// Adjoint slab of cell first_cell + cells; null beyond M.
  double* above_bar();
  /// Ends a transposed exchange: adds the adjoint slabs of all ranks to the owners' cells of `u_bar`.
  /// Collective over the depth line.
  void add_to_owners(Vec u_bar);
  /// Sum of the adjoint slabs of cell 0 after add_to_owners, on the ranks that hold cell 1; null on the
  /// others. Used by tests only.
  const double* inflow_bar() const { return mesh_.first_cell() == 1 ? ghosts_[0].bar.data() : nullptr; }

 private:
  /// A neighbouring cell that the stencil reaches, or none if cell < 0.
  struct Ghost {
    int cell = -1;
    std::vector<double> value, bar;
  };
  /// A slab to exchange with `rank`: one of the two ranks owns the cell, and the other needs it. Cell 0
  /// belongs to the owner of cell 1 and is exchanged only for adjoints.
  struct Link {
    int rank, ghost, cell;
  };
  enum { above_ghost = 2, ghost_kinds = 3 };
  /// Place on the depth line of the rank that holds `cell`.
  int owner(int cell) const;
  /// Slab of one of this rank's cells in an array of its state.
  template <class Number>
  Number* owned_slab(Number* state, int cell) const {
    return state + (cell - mesh_.first_cell()) * mesh_.slab_size();
  }
  void wait();
  double* bar(int ghost);

  const Mesh& mesh_;
  int below_;
  std::array<Ghost, ghost_kinds> ghosts_;  ///< cells first_cell - 1, first_cell - 2, first_cell + cells
  std::vector<Link> wanted_;               ///< slabs of other ranks that are this rank's ghosts
  std::vector<Link> lent_;                 ///< slabs of this rank that are ghosts of other ranks
  const double* inflow_ = nullptr;
  std::optional<ReadArray> sent_;  ///< the state between begin and end
  std::vector<MPI_Request> requests_;
};

}  // namespace fluxformer
