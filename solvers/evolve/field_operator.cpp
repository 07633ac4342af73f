#include "solvers/evolve/field_operator.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer {
FieldOperator::FieldOperator(const Mesh& mesh, const Equation& equation)
    : mesh_(mesh),
      equation_(equation),
      ghosts_(mesh, equation.reach_below(), equation.reach_above()),
      variation_ghosts_(mesh, equation.reach_below(), equation.reach_above()) {
  if (ghosts_.reaches_inflow()) zero_.assign(mesh.slab_size(), 0.0);
  ghosts_.set_inflow(zero_.data());
  variation_ghosts_.set_inflow(zero_.data());
}

void FieldOperator::set_inflow(const double* slab) {
  ghosts_.set_inflow(slab);
}

Column<double> FieldOperator::column(double* owned) const {
  return {mesh_.first_cell(), mesh_.cells(), mesh_.slab_size(), owned, {nullptr, nullptr}, nullptr};
}

Column<const double> FieldOperator::column(const DepthGhosts& ghosts, const double* owned) const {
  Column<const double> c{mesh_.first_cell(), mesh_.cells(), mesh_.slab_size(), owned,
                         {nullptr, nullptr}, nullptr};
  // u_{first-1}, u_{first-2} of the rank below, or the inflow
  for (int k = 0; k < equation_.reach_below(); ++k) c.below[k] = ghosts.below(k);
  if (equation_.reach_above() > 0) c.above = ghosts.above();
  return c;
}

template <class Begin, class End, class Body>
void FieldOperator::overlapped(Begin&& begin, End&& end, Body&& body) {
  // Cells from .. to - 1 need no ghosts: they are computed while the ghosts travel. Cells first .. from - 1
  // look at ghosts of the rank below, cells to .. last - 1 at those of the rank above.
  const int first = mesh_.first_cell(), last = first + mesh_.cells();
  const int from = std::min(last, first + equation_.reach_below());
  const int to = std::max(from, last - equation_.reach_above());
  begin();
  body(CellRange{from, to});
  end();
  body(CellRange{first, from});
  body(CellRange{to, last});
}

void FieldOperator::apply(const Equation::Terms& terms, Vec u, Vec out) {
  // out = sum of terms(u): every term adds its part.
  const ZeroedArray f(out);
  const ReadArray state(u);
  overlapped([&] { ghosts_.begin(u); }, [&] { ghosts_.end(); },
             [&](CellRange cells) {
               const auto from = column(ghosts_, state.values);
               const auto to = column(f.values);
               for (auto* term : terms) term->add_rhs(from, cells, to);
             });
}

void FieldOperator::apply_tangent(const Equation::Terms& terms, Vec u, Vec v, Vec out) {
  // out = sum of (dterm/du) v. Ghosts of u and of v are exchanged; the inflow is fixed, its variation 0.
  const ZeroedArray f(out);
  const ReadArray state(u), variation(v);
  overlapped(
      [&] {
        ghosts_.begin(u);
        ghosts_.end();
        variation_ghosts_.begin(v);
      },
      [&] { variation_ghosts_.end(); },
      [&](CellRange cells) {
        const auto at = column(ghosts_, state.values);
        const auto from = column(variation_ghosts_, variation.values);
        const auto to = column(f.values);
        for (auto* term : terms) term->add_tangent(at, from, cells, to);
      });
}

void FieldOperator::apply_adjoint(const Equation::Terms& terms, Vec u, Vec w, Vec out,
                                  std::span<double> parameters) {
  {
    const ZeroedArray bar(out);
    const ReadArray state(u), outer(w);
    // out = sum of (dterm/du)^T w. Adjoints of ghost cells are collected beside the own ones, and added to
    // those of their owners at the end.
    ghosts_.begin(u);
    ghosts_.end();
    variation_ghosts_.clear_bars();
    const auto at = column(ghosts_, state.values);
    const Column<const double> from{mesh_.first_cell(), mesh_.cells(),      mesh_.slab_size(),
                                    outer.values,       {nullptr, nullptr}, nullptr};
    auto to = column(bar.values);
    for (int k = 0; k < equation_.reach_below(); ++k) to.below[k] = variation_ghosts_.below_bar(k);
    if (equation_.reach_above() > 0) to.above = variation_ghosts_.above_bar();
    const CellRange cells{mesh_.first_cell(), mesh_.first_cell() + mesh_.cells()};
    for (auto* term : terms) term->add_adjoint(at, from, cells, to, parameters);
  }
  variation_ghosts_.add_to_owners(out);
}

}  // namespace fluxformer
