#pragma once

// The members of March. Internal to solvers/march.

#include <memory>

#include "solvers/march/march.hpp"
#include "solvers/march/march_field.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

inline constexpr double linear_tolerance = 1e-10;  // of the Krylov solver within Newton's method

struct March::Impl {
  Impl(DepthModel& m, DepthCells d, double c, const MarchSettings& s, DepthRange cells);
  /// Where PETSc evaluates a stage of the present cell. Its s adds up round-off: slightly beyond its exit a cell would use the next
  /// knots, which this rank may not have.
  DepthPoint point(double s) const;
  void make_stepper();
  void make_newton();
  void march_ts(const RowVisitor& row);
  void march_bdf2(const RowVisitor& row);
  void show(int cell, const RowVisitor& row);

  MarchField field;
  DepthModel& model;
  DepthCells depth;
  DepthRange range;
  MarchSettings settings;
  MPI_Comm comm;
  VecHandle u, residual;
  TSHandle ts;
  SNESHandle snes;
  std::unique_ptr<ShellMatrix> jacobian;
  // the linearisation point and the present cell
  Vec at = nullptr;
  DepthPoint at_point;
  int cell = 1;
  // bdf2: lead * u - known = F(u) / c
  VecHandle known, older;
  double lead = 0;
  const RowVisitor* visit = nullptr;
};

}  // namespace fluxformer
