#pragma once

// One term of equation (1) on all depth cells a rank holds; the right-hand side is a list of these. What a
// time integrator must know of a term is asked of the term.

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {

/// The slabs of this rank's depth cells and of the neighbouring cells its stencils reach. Cells are numbered
/// 1..M through depth; slab 0 is the inflow. P: double or const double.
template <class P>
struct Column {
  int first = 1;       ///< number of the first owned cell
  int count = 0;       ///< owned cells
  Index slab = 0;      ///< numbers in a slab
  P* owned = nullptr;  ///< count slabs, contiguous
  P* below[2] = {};    ///< slabs first-1 and first-2; null where there is none (below the inflow)
  P* above = nullptr;  ///< slab first+count; null at the outflow

  /// Slab of cell i, first-2 <= i <= first+count; null where there is none.
  P* at(int i) const {
    if (i < first) return below[first - 1 - i];
    if (i >= first + count) return above;
    return owned + (i - first) * slab;
  }
};

/// Owned cells begin .. end-1 (numbers through depth): the parts before and after ghosts arrive.
struct CellRange {
  int begin = 1, end = 1;
};

/// The limit that a term sets to an explicit step dt. Forward Euler with first-order transport is stable
/// while the sum of rate * dt over all terms is at most 1; each method scales the two kinds by numbers of its
/// own.
struct StepLimit {
  enum class Kind { transport, diffusion };
  Kind kind = Kind::transport;
  double rate = 0;        ///< rate per unit of time
  std::string text = {};  ///< rate * dt, as messages write it: "2 epsilon dt/h^2"
};

/// The form in which a term is written in du_i/dt = ...
struct TermText {
  std::string formula;                        ///< "epsilon (u_{i+1} - 2 u_i + u_{i-1})/h^2"
  std::vector<std::string> values = {};       ///< its coefficients: "epsilon = 0.02", "h = 0.5"
  std::vector<std::string> definitions = {};  ///< its other symbols: "N: LayerNorm over channels"
};

/// The text "symbol = value".
inline std::string value_text(const std::string& symbol, double value) {
  std::ostringstream text;
  text << symbol << " = " << value;
  return text.str();
}

/// A term of the equation as a time integrator sees it. Calls are collective over the token line.
class Term {
 public:
  virtual ~Term() = default;
  /// out(cells) += term(u)
  virtual void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) = 0;
  /// out(cells) += J(u) v; ghosts of v are filled (inflow: zero, or its variation).
  virtual void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                           const Column<double>& out) = 0;
  /// u_bar (owned and ghosts) += J(u)^T w over `cells`; parameters += this rank's share of the gradient, if
  /// not empty (the model's flat vector).
  virtual void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                           const Column<double>& u_bar, std::span<double> parameters) = 0;

  /// The numbers of cells below and above on which a cell's value depends. Not collective, like the two
  /// below.
  virtual int reach_below() const { return 0; }
  virtual int reach_above() const { return 0; }
  /// The limit of an explicit step; nothing where none is known.
  virtual std::optional<StepLimit> step_limit() const { return std::nullopt; }
  /// The term's printed form.
  virtual TermText text() const = 0;
};

/// Optional seam of a Term: implicit-explicit methods treat it implicitly. It is linear in u.
class ImplicitTerm {
 public:
  virtual ~ImplicitTerm() = default;
  /// diagonal(cells) += scale * diagonal of J. Not collective.
  virtual void add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const = 0;
};

}  // namespace fluxformer
