#pragma once

// A list of Terms applied to PETSc vectors on the mesh. The exchange of ghosts overlaps with the cells that
// do not need them.

#include <vector>

#include "base/handle.hpp"
#include "mesh/ghosts.hpp"
#include "model/equation.hpp"

namespace fluxformer {

/// A list of terms of one equation as an operator on PETSc vectors. Implicit and explicit terms can be
/// applied separately.
class FieldOperator {
 public:
  /// `mesh` and `equation` are borrowed. Not collective.
  FieldOperator(const Mesh& mesh, const Equation& equation);

  /// Sets the slab of cell 0 (slab_size numbers, borrowed); zero before the first call.
  void set_inflow(const double* slab);

  /// out = sum of terms(u). Collective.
  void apply(const Equation::Terms& terms, Vec u, Vec out);
  /// out = J(u) v, with the inflow fixed. Collective.
  void apply_tangent(const Equation::Terms& terms, Vec u, Vec v, Vec out);
  /// out = J(u)^T w; parameters (if not empty) += this rank's share of the gradient. Collective. No solver
  /// calls it: tests verify with it that terms and ghosts have exact transposes.
  void apply_adjoint(const Equation::Terms& terms, Vec u, Vec w, Vec out, std::span<double> parameters);

 private:
  /// Calls body(range) for the cells that need no ghosts and, after the exchange, for the others.
  template <class Begin, class End, class Body>
  void overlapped(Begin&& begin, End&& end, Body&& body);
  Column<const double> column(const DepthGhosts& ghosts, const double* owned) const;
  Column<double> column(double* owned) const;

  const Mesh& mesh_;
  const Equation& equation_;
  std::vector<double> zero_;  // the inflow before set_inflow, and the inflow of variations
  DepthGhosts ghosts_, variation_ghosts_;
};

}  // namespace fluxformer
