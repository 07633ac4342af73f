#pragma once

// A drift along the tokens: -v du/dx, first-order upwind differences, token spacing 1, v >= 0.
//
//   (D u)(x) = -v (u(x) - u(x - 1)),    the same in every depth cell
//
// Where there is no token to the west (the first of a row, unless periodic; padding) the term is 0. Stable for
// forward Euler while v dt <= 1. Cost: 3 flops per number, one exchange of token halos per cell.

#include "operators/slab.hpp"
#include "operators/term.hpp"

namespace own {

class TokenDrift final : public fluxformer::Term {
 public:
  /// `context` is borrowed; `speed` v in tokens per unit of time. Throws BadInput for v < 0 or a causal mask
  /// on a periodic line.
  TokenDrift(const fluxformer::SlabContext& context, double speed);

  void add_rhs(const fluxformer::Column<const double>& u, fluxformer::CellRange cells,
               const fluxformer::Column<double>& out) override;
  void add_tangent(const fluxformer::Column<const double>& u, const fluxformer::Column<const double>& v,
                   fluxformer::CellRange cells, const fluxformer::Column<double>& out) override;
  void add_adjoint(const fluxformer::Column<const double>& u, const fluxformer::Column<const double>& w,
                   fluxformer::CellRange cells, const fluxformer::Column<double>& u_bar,
                   std::span<double> parameters) override;
  std::optional<fluxformer::StepLimit> step_limit() const override;
  fluxformer::TermText text() const override;

 private:
  template <class Visit>
  void for_each_pair(Visit&& visit) const;

  const fluxformer::SlabContext& context_;
  double speed_;
  fluxformer::TokenHalo halo_;
};

}  // namespace own
