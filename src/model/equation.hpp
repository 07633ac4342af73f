#pragma once

// Equation (1) of docs/model.md, discretised through depth: a list of Terms, and the step limits that go with
// it.
//
//   shift      du_i/dt = (c/h)(G_i(u_{i-1}; h/c) - u_i)                       + eps term
//   upwind     du_i/dt = (c/h)(u_{i-1} - u_i)                       + F_i(u_i) + eps term
//   upwind2    du_i/dt = -(c/2h)(3u_i - 4u_{i-1} + u_{i-2})         + F_i(u_i) + eps term

#include <memory>
#include <string>
#include <vector>

#include "model/model_terms.hpp"

namespace fluxformer {

enum class DepthScheme { shift, upwind, upwind2 };

struct EquationSpec {
  DepthCells depth;
  double speed = 1;    ///< c, layers per unit of time
  double epsilon = 0;  ///< layers squared per unit of time
  DepthScheme scheme = DepthScheme::shift;
};

class Equation {
 public:
  /// `model` is borrowed. Throws BadInput, naming the key, for what docs/model.md section 3 does not define
  /// (upwind with norm post, M not a multiple of S with constant weights, ...), and where explicit token
  /// diffusion in depth is unstable whatever the time step (shift: kappa (h/c) axes > 1/2; the message names
  /// the smallest M).
  Equation(DepthModel& model, const EquationSpec& spec);

  using Terms = std::vector<Term*>;
  /// All terms; the diffusions acting on u_i (what an implicit-explicit method treats implicitly); the
  /// others.
  const Terms& all() const { return all_; }
  const Terms& diffusive() const { return diffusive_; }
  const Terms& rest() const { return rest_; }
  /// One more term, not among the diffusive ones (a manufactured source). Before solvers are made of this.
  void add_source(std::unique_ptr<Term> source) { add(std::move(source), false); }
  int reach_below() const;
  int reach_above() const;

  const EquationSpec& spec() const { return spec_; }
  DepthModel& model() const { return model_; }
  /// What limits an explicit step dt: transport * dt = c dt/h, diffusion * dt = 2 epsilon dt/h^2 + 2 kappa dt
  /// axes (the latter for upwind, upwind2). Forward Euler with first-order transport is stable for a sum of
  /// at most 1.
  struct Rates {
    double transport = 0, diffusion = 0;
  };
  Rates rates() const;
  /// The left-hand side of that rule, for messages: "c dt/h + 2 epsilon dt/h^2".
  std::string limit_rule(bool diffusion_implicit) const;
  /// diagonal += scale * diag of the diffusive terms at cell i (one slab).
  void add_diffusive_diagonal(int cell, double scale, double* diagonal) const;

 private:
  void add(std::unique_ptr<Term> term, bool diffusive);
  int token_axes() const;
  void check_combination() const;
  DepthModel& model_;
  EquationSpec spec_;
  std::vector<std::unique_ptr<Term>> owned_;
  Terms all_, diffusive_, rest_;
};

std::string to_word(DepthScheme scheme);

}  // namespace fluxformer
