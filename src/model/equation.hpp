#pragma once

// Equation (1) of docs/model.md, discretised through depth: a list of Terms, of which those of the model are
// defined here.
//
//   shift      du_i/dt = (c/h)(G_i(u_{i-1}; h/c) - u_i)                        + eps term
//   upwind     du_i/dt = (c/h)(u_{i-1} - u_i)                       + F_i(u_i) + eps term
//   upwind2    du_i/dt = -(c/2h)(3 u_i - 4 u_{i-1} + u_{i-2})       + F_i(u_i) + eps term

#include <memory>
#include <string>
#include <vector>

#include "model/depth_march.hpp"
#include "operators/term.hpp"

namespace fluxformer {

/// The term of `shift`, transport and layer map in one: (c/h_i) (G_i(u_{i-1}; h_i/c) - u_i), with the
/// parameters at the entry of the cell.
class LayerTerm final : public Term {
 public:
  /// `model` is borrowed. Throws BadInput for c <= 0.
  LayerTerm(DepthModel& model, const DepthCells& depth, double speed);
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
  FieldTerm(DepthModel& model, const DepthCells& depth, FieldTermKind part)
      : model_(model), depth_(depth), part_(part) {}
  DepthPoint point(int cell) const { return depth_.exit(cell); }
  DepthModel& model_;
  DepthCells depth_;

 private:
  FieldTermKind part_;
};

/// Token diffusion kappa Lap u_i. It is linear in u, so that it may be implicit.
class TokenDiffusionTerm final : public FieldTerm, public ImplicitTerm {
 public:
  /// `model` is borrowed; the term acts on the cells of `depth`.
  TokenDiffusionTerm(DepthModel& model, const DepthCells& depth)
      : FieldTerm(model, depth, FieldTermKind::diffusion) {}
  /// The limit at the rate 2 kappa * (token axes), with the largest kappa; no limit for kappa = 0.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;
  void add_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const override;
};

/// Token transport -nu d/dx u_i, one-sided and explicit.
class TokenTransportTerm final : public FieldTerm {
 public:
  /// `model` is borrowed; the term acts on the cells of `depth`.
  TokenTransportTerm(DepthModel& model, const DepthCells& depth)
      : FieldTerm(model, depth, FieldTermKind::transport) {}
  /// The limit at the rate nu, with the largest nu; no limit for nu = 0.
  std::optional<StepLimit> step_limit() const override;
  TermText text() const override;
};

/// Attention alpha A_s(u_i); for norm = sphere its tangential part.
class AttentionTerm final : public FieldTerm {
 public:
  /// `model` is borrowed; the term acts on the cells of `depth`.
  AttentionTerm(DepthModel& model, const DepthCells& depth)
      : FieldTerm(model, depth, FieldTermKind::attention) {}
  TermText text() const override;
};

/// Reaction rho R_s(u_i); for norm = sphere its tangential part.
class ReactionTerm final : public FieldTerm {
 public:
  /// `model` is borrowed; the term acts on the cells of `depth`.
  ReactionTerm(DepthModel& model, const DepthCells& depth)
      : FieldTerm(model, depth, FieldTermKind::reaction) {}
  TermText text() const override;
};

/// The number of token axes with more than one token, but at least 1: the factor in the step limit of token
/// diffusion.
int token_axes(const TokenLine& line);

/// The numbers of equation (1) that do not belong to the model (kappa, nu, alpha and rho are parameters), and its
/// discretisation.
struct EquationSpec {
  DepthCells depth;
  double speed = 1;    ///< c, layers per unit of time
  double epsilon = 0;  ///< epsilon, layers squared per unit of time
  DepthScheme scheme = DepthScheme::shift;
};

/// Equation (1) as a list of terms that it owns, sorted by how they may be integrated.
class Equation {
 public:
  /// `model` is borrowed. Throws BadInput, naming the key, for what docs/model.md section 3 does not define
  /// (upwind with norm post, M not a multiple of S with constant weights, ...), and where explicit token
  /// diffusion and transport in depth are unstable whatever the time step (shift: (2 kappa axes + nu) h/c > 1;
  /// the message names the smallest M).
  Equation(DepthModel& model, const EquationSpec& spec);

  /// Pointers to terms that the equation owns.
  using Terms = std::vector<Term*>;
  /// All terms, those that an implicit-explicit method treats implicitly (ImplicitTerm), and the others.
  const Terms& all() const { return all_; }
  const Terms& implicit_terms() const { return implicit_; }
  const Terms& explicit_terms() const { return explicit_; }
  /// Adds a term (a manufactured source, or one from outside). To be called before solvers are built from
  /// this object. Throws BadInput for norm sphere with upwind schemes: the term would carry the state off the
  /// sphere.
  void add(std::unique_ptr<Term> term);
  /// True if terms were added. The march through depth ignores them.
  bool has_added_terms() const { return added_; }
  /// The largest stencil reach of any term, in cells below and above.
  int reach_below() const;
  int reach_above() const;

  const EquationSpec& spec() const { return spec_; }
  DepthModel& model() const { return model_; }
  /// diagonal(cells) += scale * the diagonal of the implicit terms
  void add_implicit_diagonal(CellRange cells, double scale, const Column<double>& diagonal) const;
  /// The equation as printed by its terms, with the values of its coefficients, in a few lines; `implicit`
  /// terms are marked.
  std::string text(const Terms& implicit) const;

 private:
  void check_combination() const;
  void require_stable_in_depth() const;
  void append(std::unique_ptr<Term> term);
  DepthModel& model_;
  EquationSpec spec_;
  std::vector<std::unique_ptr<Term>> owned_;
  Terms all_, implicit_, explicit_;
  bool added_ = false;
};

/// The limits of an explicit step dt of some terms: the sums of their StepLimits, per unit of time.
struct StepRates {
  double transport = 0, diffusion = 0;
};
/// The rates of these terms. Not collective: terms give the same limit on every rank.
StepRates step_rates(const Equation::Terms& terms);
/// The step limit of these terms in words, for messages: "c dt/h + 2 epsilon dt/h^2"; "" if nothing limits
/// the step.
std::string step_rule(const Equation::Terms& terms);

}  // namespace fluxformer
