#pragma once

// Transport through depth and diffusion in depth, on cells of spacing h = S / M.
//
//   first order    -c du/ds  ~  (c/h) (u_{i-1} - u_i)                            (shift, upwind)
//   second order   -c du/ds  ~  -(c/2h) (3 u_i - 4 u_{i-1} + u_{i-2})            (upwind2; first order in
//   cell 1) diffusion      eps d2u/ds2 ~ eps (u_{i+1} - 2 u_i + u_{i-1}) / h^2           reflected at the
//   outflow, u_{M+1} = u_{M-1}
//
// A column without a slab for a cell below means zero there (no inflow). With M = 1 the reflected value is
// the inflow. Forward Euler alone is stable for c dt / h <= 1 (first order) and 2 eps dt / h^2 <= 1;
// second-order upwind with forward Euler is not stable for any dt that is fixed as h -> 0.

#include "operators/term.hpp"

namespace fluxformer {

class DepthTransport final : public Term {
 public:
  /// c >= 0, h > 0, order 1 or 2; throws BadInput otherwise.
  DepthTransport(double speed, double spacing, int order);
  std::string_view name() const override { return "depth transport"; }
  Locality locality() const override { return Locality::depth_stencil; }
  int reach_below() const override { return order_; }
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  /// h / c for first order; 0 for second order, for which no step is stable (see above).
  double max_stable_dt() const override;

 private:
  double rate_;  // c / h
  int order_;
};

class DepthDiffusion final : public Term {
 public:
  /// eps >= 0, h > 0; throws BadInput otherwise.
  DepthDiffusion(double epsilon, double spacing, int cells);
  std::string_view name() const override { return "depth diffusion"; }
  Locality locality() const override { return Locality::depth_stencil; }
  int reach_below() const override { return 1; }
  int reach_above() const override { return 1; }
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  double max_stable_dt() const override;
  /// The diagonal of the operator, the same for every cell: -2 eps / h^2.
  double diagonal() const { return -2 * rate_; }

 private:
  double rate_;  // eps / h^2
  int cells_;    // M
};

}  // namespace fluxformer
