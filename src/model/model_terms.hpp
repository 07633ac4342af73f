#pragma once

// The parts of the model as Terms on all depth cells of a rank.

#include "model/depth_march.hpp"
#include "operators/term.hpp"

namespace fluxformer {

/// The term of `shift`, transport and layer map in one: (c/h_i) (G_i(u_{i-1}; h_i/c) - u_i), with the parameters
/// at the entry of the cell.
class LayerTerm final : public Term {
 public:
  /// `model` is borrowed. Throws BadInput for c <= 0.
  LayerTerm(DepthModel& model, DepthCells depth, double speed);
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  int reach_below() const override { return 1; }
  /// The limit of its transport, at the rate c / h.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;

 private:
  DepthPoint point(int cell) const { return depth_.entry(cell); }
  double step(int cell) const { return depth_.length(cell) / speed_; }  // h_i / c
  double rate(int cell) const { return speed_ / depth_.length(cell); }  // c / h_i
  /// out += rate (work_ - here)
  void add_relaxation(double rate, const double* here, double* out) const;

  DepthModel& model_;
  DepthCells depth_;
  double speed_;
  std::vector<double> work_, bar_;  // slabs
};

/// A term of `upwind` and `upwind2`: one part of F_s at u_i, with the parameters at the exit of the cell.
/// `model` is borrowed.
class FieldTerm : public Term {
 public:
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) final;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) final;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) final;

 protected:
  /// `part` is the part of F_s that this term adds.
  FieldTerm(DepthModel& model, DepthCells depth, FieldTermKind part)
      : model_(model), depth_(depth), part_(part) {}
  DepthPoint point(int cell) const { return depth_.exit(cell); }
  DepthModel& model_;

 private:
  DepthCells depth_;
  FieldTermKind part_;
};

/// Token diffusion kappa Lap u_i. It is linear in u, so that it may be implicit.
class TokenDiffusionTerm final : public FieldTerm, public ImplicitTerm {
 public:
  /// `model` is borrowed; the term acts on the cells of `depth`.
  TokenDiffusionTerm(DepthModel& model, DepthCells depth)
      : FieldTerm(model, depth, FieldTermKind::diffusion) {}
  /// The limit at the rate 2 kappa * (token axes), with the largest kappa; no limit for kappa = 0.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;
  void add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const override;
};

/// Attention alpha A_s(u_i); for norm = sphere its tangential part.
class AttentionTerm final : public FieldTerm {
 public:
  AttentionTerm(DepthModel& model, DepthCells depth) : FieldTerm(model, depth, FieldTermKind::attention) {}
  TermText text() const override;
};

/// Reaction rho R_s(u_i); for norm = sphere its tangential part.
class ReactionTerm final : public FieldTerm {
 public:
  ReactionTerm(DepthModel& model, DepthCells depth) : FieldTerm(model, depth, FieldTermKind::reaction) {}
  TermText text() const override;
};

/// The number of token axes with more than one token, but at least 1: the factor in the step limit of token
/// diffusion.
int token_axes(const TokenLine& line);

}  // namespace fluxformer
