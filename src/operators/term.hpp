#pragma once

// A term of equation (1) on all depth cells a rank holds: what the right-hand side is a list of.

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "operators/slab.hpp"

namespace fluxformer {

/// The slabs of this rank's depth cells and of the neighbours' cells its stencils reach. Cells are
/// numbered 1..M through depth; slab 0 is the inflow. P: double or const double.
template <class P>
struct Column {
  int first = 1;         ///< number of the first owned cell
  int count = 0;         ///< owned cells
  std::size_t slab = 0;  ///< numbers in a slab
  P* owned = nullptr;    ///< count slabs, contiguous
  P* below[2] = {};      ///< slabs first-1 and first-2; null where there is none (below the inflow)
  P* above = nullptr;    ///< slab first+count; null at the outflow

  /// Slab of cell i, first-2 <= i <= first+count; null where there is none.
  P* at(int i) const {
    if (i < first) return below[first - 1 - i];
    if (i >= first + count) return above;
    return owned + static_cast<std::size_t>(i - first) * slab;
  }
};

/// Owned cells begin .. end-1 (numbers through depth): the parts before and after ghosts arrive.
struct CellRange {
  int begin = 1, end = 1;
};

class Term {
 public:
  virtual ~Term() = default;
  virtual std::string_view name() const = 0;
  virtual Locality locality() const = 0;
  /// How many cells below and above a cell's value depends on.
  virtual int reach_below() const { return 0; }
  virtual int reach_above() const { return 0; }
  /// out(cells) += term(u). Collective over the token line where the locality says so.
  virtual void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) = 0;
  /// out(cells) += J(u) v; ghosts of v are filled (inflow: zero, or its variation).
  virtual void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                           const Column<double>& out) = 0;
  /// u_bar (owned and ghosts) += J(u)^T w over `cells`; parameters += this rank's share of the gradient, if
  /// not empty (the model's flat vector).
  virtual void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                           const Column<double>& u_bar, std::span<double> parameters) = 0;
  /// Forward Euler, this term alone; infinity where no such bound is known.
  virtual double max_stable_dt() const { return std::numeric_limits<double>::infinity(); }
};

}  // namespace fluxformer
