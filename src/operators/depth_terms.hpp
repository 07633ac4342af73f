#pragma once

// Transport through depth and diffusion in depth, on cells of spacing h = S / M.
//
//   first order    -c du/ds    ~  (c/h) (u_{i-1} - u_i)                       upwind
//   second order   -c du/ds    ~  -(c/2h) (3 u_i - 4 u_{i-1} + u_{i-2})       upwind2; cell 1 as first order
//   diffusion      eps d2u/ds2 ~  eps (u_{i+1} - 2 u_i + u_{i-1}) / h^2       outflow: u_{M+1} = u_{M-1}
//
// Without an inflow slab the state below cell 1 is zero. With M = 1 the reflected value is the inflow.
// Forward Euler is stable for c dt / h <= 1 (first order) and for 2 eps dt / h^2 <= 1; with second-order
// upwind it is unstable for every fixed c dt / h.

#include "operators/term.hpp"

namespace fluxformer {

/// -c du/ds. Not collective, has no parameters.
class DepthTransport final : public Term {
 public:
  /// c >= 0, h > 0, order 1 or 2; throws BadInput otherwise.
  DepthTransport(double speed, double spacing, int order);
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  int reach_below() const override { return order_; }
  /// Rate c / h, for both orders; none for c = 0.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;

 private:
  double speed_, spacing_, rate_;  // c, h, c / h
  int order_;
};

/// epsilon d2u/ds2, linear. Not collective, has no parameters.
class DepthDiffusion final : public Term, public ImplicitTerm {
 public:
  /// eps >= 0, h > 0; throws BadInput otherwise.
  DepthDiffusion(double epsilon, double spacing, int cells);
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  int reach_below() const override { return 1; }
  int reach_above() const override { return 1; }
  /// Rate 2 eps / h^2; none for eps = 0.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;
  /// The diagonal is -2 eps / h^2 in every cell.
  void add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const override;

 private:
  double epsilon_, spacing_, rate_;  // eps, h, eps / h^2
  int cells_;                        // M
};

}  // namespace fluxformer
