#pragma once

// The methods of AdjointMarch, and the factors by which PETSc's adjoint steps multiply our transposed
// products. Internal to solvers/adjoint.

#include <petscts.h>

#include <vector>

#include "solvers/adjoint/adjoint_march.hpp"

namespace fluxformer {

/// A method by its name in decks, and the constants of its transposed steps.
class AdjointMethod {
 public:
  /// Throws BadInput for an unknown name and for theta out of range.
  explicit AdjointMethod(const AdjointSettings& settings);

  /// Sets the type of a new TS and reads its tableau. Collective over its communicator.
  void set(TS ts);

  bool layer_map() const { return name_ == "1fe"; }
  bool explicit_stages() const { return runge_kutta_; }
  /// Whether the first stage of a step is the last one of the step before.
  bool reuses_last_stage() const { return reuses_last_stage_; }
  /// Number of explicit stages that an adjoint step transposes, from the last to the first.
  int transposed_stages() const { return static_cast<int>(weights_.size()) - (reuses_last_stage_ ? 1 : 0); }
  /// TSAdjointStep_RK multiplies J_i^T w_i by b_i, or by 1 where b_i = 0 (w_i is then scaled instead). The
  /// product with the parameters' Jacobian needs the same factor. (PETSc's own parameter gradient omits that
  /// product where b_i = 0.)
  double stage_factor(int stage) const;
  /// The factor of the product with the parameters' Jacobian in TSAdjointStep_Theta: the weight of the point
  /// at this fraction of the step.
  double parameter_factor(double share) const;
  /// The position of a stage as a fraction of the step, without the round-off of PETSc's time.
  double exact_share(double share) const;

 private:
  std::string name_;
  double theta_;
  bool runge_kutta_, reuses_last_stage_ = false;
  std::vector<double> weights_, shares_;
};

}  // namespace fluxformer
