#pragma once

// One PETSc TS that marches through cells and, if it keeps its trajectory, transposes them one by one.
// Internal to solvers/adjoint.
//
// Its time counts cells: du/dtau = (h/c) F_s(u), or G(u; h/c) - u for the layer map. Times and steps are then
// whole numbers without round-off, and a march repeated from a kept state gives the same bits.

#include <petscts.h>

#include <memory>
#include <vector>

#include "base/index.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "solvers/march/march_field.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

/// A method of AdjointMarch by its name in decks, and the factors by which PETSc's adjoint steps multiply our
/// transposed products.
class AdjointMethod {
 public:
  /// Throws BadInput for an unknown name and for theta out of range.
  explicit AdjointMethod(const AdjointSettings& settings);

  /// Sets the type of a new TS and reads its tableau. Collective over the communicator of `ts`.
  void set(TS ts);

  bool layer_map() const { return name_ == AdjointSettings::layer_map_name; }
  bool explicit_stages() const { return runge_kutta_; }
  /// True if the first stage of a step is the last one of the step before.
  bool reuses_last_stage() const { return reuses_last_stage_; }
  /// Number of explicit stages that an adjoint step transposes, from the last to the first.
  int transposed_stages() const { return std::ssize(weights_) - (reuses_last_stage_ ? 1 : 0); }
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

/// Marches forward in whole cells and back over those whose trajectory it keeps.
class AdjointStepper {
 public:
  /// Says if the stages of a march are stored for step_back.
  enum class Trajectory { none, kept };
  /// The tapes of the layer map, one per cell of the kept segment, or one per stage of each cell. A march
  /// that is not kept records on the first tape, to give the same bits as a kept march.
  struct Tapes {
    std::vector<std::unique_ptr<Tape>> tape;
    /// The tape of the index-th cell, made when first asked for.
    Tape& of(DepthModel& model, int index);
    /// Memory that all tapes hold, in bytes.
    std::size_t bytes() const;
  };

  /// Collective. `field` and `tapes` are borrowed.
  AdjointStepper(MarchField& field, const AdjointSettings& settings, Trajectory trajectory, Tapes& tapes);
  AdjointStepper(const AdjointStepper&) = delete;
  AdjointStepper& operator=(const AdjointStepper&) = delete;

  /// Marches u from row `first` through `count` cells and calls `edit` and `row` (each may be empty) after
  /// each. `taping`: the layer map, or with AdjointSettings::tapes every stage, runs with tapes. Collective;
  /// throws NumericalFailure.
  void march(int first, int count, double* u, bool taping, const RowEdit& edit, const RowVisitor& row);
  /// The adjoint of the state, which step_back updates.
  Vec lambda() const { return lambda_; }
  /// Transposes the last cell not yet transposed; gradient += its contribution. Collective.
  void step_back(std::span<double> gradient);
  /// After step_back: calls `row` with the state that cell started from and with its adjoint.
  void show_start(const RowAdjoint& row) const;
  /// Memory that the present trajectory holds, without tapes, in bytes.
  std::size_t bytes() const { return bytes_; }

 private:
  void set_callbacks();
  void set_adjoint();
  DepthPoint point(double time) const;
  double share(double time) const;
  void right_hand_side(double time, Vec x, Vec f);
  /// The tape of a stage of the present cell.
  Tape& stage_tape(int stage);
  void transposed_product(Vec w, Vec bar);
  void parameter_product(Vec w);
  void after_step();
  /// The state at which the present adjoint step is linearised, where PETSc gives x.
  Vec linearisation_point(double time, Vec x);
  void require_success(const char* what) const;

  MarchField& field_;
  AdjointMethod method_;
  bool keeps_, tapes_of_stages_;
  Tapes& tapes_;
  TSHandle ts_;
  VecHandle u_, lambda_, no_parameters_, end_;
  Vec lambda_list_ = nullptr, no_parameters_list_ = nullptr;  // PETSc keeps pointers to these
  std::unique_ptr<ShellMatrix> jacobian_, parameter_jacobian_;
  // The linearisation points of the Jacobians.
  Vec at_ = nullptr, parameters_at_ = nullptr;
  DepthPoint at_point_, parameters_at_point_;
  double parameters_share_ = 0;
  int first_ = 0, count_ = 0, cell_ = 1, stage_ = 0;
  bool taping_ = false, back_ = false;
  const RowEdit* edit_ = nullptr;
  const RowVisitor* row_ = nullptr;
  std::span<double> gradient_;
  std::vector<std::vector<double>> states_;  // implicit methods: rows first .. first + count - 1
  std::vector<std::vector<double>> ends_;    // with an edit: where the steps ended, before it
  Index bytes_ = 0;
};

}  // namespace fluxformer
