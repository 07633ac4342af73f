#pragma once

// A manufactured solution of equation (1): waves through depth and over tokens, and the source that makes
// them its steady state, to measure the order of the discretisation (docs/model.md T4).
//
//   u*(s, x, y) = mean + a cos(omega (s - S)) cos(pi p (x + 1/2) / n_x) cos(pi q (y + 1/2) / n_y)
//   f           = c du*/ds - epsilon d2u*/ds2 - kappa Lap u* - alpha A_s[u*] - rho R_s(u*)
//
// with mean, a and omega depending on sample and channel. It satisfies the boundary conditions: zero flux
// over tokens, zero gradient at s = S. Derivatives are exact, in the units of the lattice (token spacing 1);
// attention and reaction act on the values at the tokens, so that only the errors of transport and diffusion
// remain. Source: the method of manufactured solutions, Roache, J. Fluids Eng. 124 (2002).

#include "base/index.hpp"
#include "model/equation.hpp"

namespace fluxformer {

/// Wave numbers of the solution along each axis.
struct ManufacturedWaves {
  double omega = 1;  ///< depth wave number scale, per layer; 0: constant through depth
  int waves_x = 0;   ///< p
  int waves_y = 0;   ///< q
};

/// The solution u* and the source f for one model and equation.
class Manufactured {
 public:
  /// `model` is borrowed. kappa must be one number for all channels and depths, namely largest_kappa().
  Manufactured(DepthModel& model, const EquationSpec& equation, const ManufacturedWaves& waves);

  /// u* at depth s on this rank's tokens, a slab; s = 0 is the inflow. Not collective.
  void solution(double s, double* slab) const;
  /// f at cell i (s = ih), a slab, overwritten. Collective over the token line.
  void source(int cell, double* slab) const;

 private:
  /// Calls visit(index, mean, depth wave number, amplitude times the token waves) for each number of a slab.
  template <class Visit>
  void over_points(Visit&& visit) const;
  /// Eigenvalue of the Laplacian over tokens for the token waves.
  double laplacian() const;

  DepthModel& model_;
  EquationSpec equation_;
  ManufacturedWaves waves_;
};

/// The source f as a term; it depends on neither time nor state.
class SourceTerm final : public Term {
 public:
  /// Evaluates f on cells first .. first + count - 1, those of this rank. Collective over the token line.
  SourceTerm(const Manufactured& manufactured, Index slab, int first, int count);
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>&, const Column<const double>&, CellRange,
                   const Column<double>&) override {}
  void add_adjoint(const Column<const double>&, const Column<const double>&, CellRange, const Column<double>&,
                   std::span<double>) override {}
  TermText text() const override { return {"f_i", {}, {"f: source of a manufactured solution"}}; }

 private:
  Index slab_;
  int first_;
  std::vector<double> values_;
};

}  // namespace fluxformer
