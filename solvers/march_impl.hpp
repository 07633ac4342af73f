#pragma once

// What March holds. For solvers/march*.cpp only.

#include <memory>

#include "solvers/march.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

struct March::Impl {
  Impl(DepthModel& m, DepthCells d, double c, const MarchSettings& s);
  void check_combination() const;
  void make_stepper();
  void make_newton();
  void set_tolerances(SNES newton) const;
  void march_ts(const RowVisitor& row);
  void march_bdf2(const RowVisitor& row);
  /// f = F_s(x) / c
  void field(const DepthPoint& at, Vec x, Vec f);
  void field_tangent(const DepthPoint& at, Vec x, Vec v, Vec f);
  DepthPoint stage_point(double s) const;
  void show(int cell, const RowVisitor& row);

  DepthModel& model;
  DepthCells depth;
  double speed;
  MarchSettings settings;
  MPI_Comm comm;
  VecHandle u, residual;
  TSHandle ts;
  SNESHandle snes;
  std::unique_ptr<ShellMatrix> jacobian;
  // the linearisation point and the cell the integrator is in
  Vec at = nullptr;
  DepthPoint at_point;
  int cell = 1;
  // bdf2: lead * u - known = F(u) / c
  VecHandle known, older;
  double lead = 0;
  const RowVisitor* visit = nullptr;
};

}  // namespace fluxformer
