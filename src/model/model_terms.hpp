#pragma once

// The model's parts of the right-hand side, as Terms on all depth cells of a rank.

#include "model/depth_march.hpp"
#include "operators/term.hpp"

namespace fluxformer {

/// shift: (c/h) (G_i(u_{i-1}; h/c) - u_i), transport and layer map in one. Parameters at the entry of the
/// cell.
class LayerTerm final : public Term {
 public:
  /// `model` is borrowed. Throws BadInput for c <= 0.
  LayerTerm(DepthModel& model, DepthCells depth, double speed);
  std::string_view name() const override { return "layer map"; }
  Locality locality() const override { return Locality::token_line; }
  int reach_below() const override { return 1; }
  /// h / c
  double max_stable_dt() const override { return depth_.spacing() / speed_; }
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;

 private:
  DepthPoint point(int cell) const { return cell_entry(cell, depth_.layers, depth_.cells); }
  DepthModel& model_;
  DepthCells depth_;
  double speed_;
  std::vector<double> work_;  // tangents and adjoints only
};

/// upwind, upwind2: one part of F_s at u_i, parameters at the exit of the cell.
class FieldTerm final : public Term {
 public:
  FieldTerm(DepthModel& model, DepthCells depth, Mechanism part)
      : model_(model), depth_(depth), part_(part) {}
  std::string_view name() const override;
  Locality locality() const override;
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  /// 1 / (2 kappa axes) for diffusion; infinity for the others.
  double max_stable_dt() const override;

 private:
  DepthPoint point(int cell) const { return cell_exit(cell, depth_.layers, depth_.cells); }
  DepthModel& model_;
  DepthCells depth_;
  Mechanism part_;
};

}  // namespace fluxformer
