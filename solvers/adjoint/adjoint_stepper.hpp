#pragma once

// One PETSc TS that marches cells and, if it keeps its trajectory, transposes them one by one. For
// solvers/adjoint_*.cpp only.
//
// Its time is counted in cells, so that times and steps are whole numbers without round-off and a march that
// is done again from a kept state gives the same bits: du/dtau = (h/c) F_s(u), or G(u; h/c) - u for the layer
// map.

#include <memory>
#include <vector>

#include "solvers/adjoint/adjoint_method.hpp"
#include "solvers/march/march_field.hpp"
#include "solvers/shell_matrix.hpp"

namespace fluxformer {

class AdjointStepper {
 public:
  enum class Trajectory { none, kept };
  /// What the layer map leaves behind for its adjoint: nothing, or one tape per cell from `first` on; with
  /// `only` one the same tape for all of them (so that a march not kept gives the bits of one that is).
  struct Tapes {
    std::vector<std::unique_ptr<Tape>> tape;
    Tape& of(DepthModel& model, int index);
    std::size_t bytes() const;
  };

  /// Collective. `field` and `tapes` are borrowed.
  AdjointStepper(MarchField& field, const AdjointSettings& settings, Trajectory trajectory, Tapes& tapes);
  AdjointStepper(const AdjointStepper&) = delete;
  AdjointStepper& operator=(const AdjointStepper&) = delete;

  /// Marches u from row `first` on through `count` cells and shows their rows. `taping`: the layer map runs
  /// as where the trajectory is kept. Collective; throws NumericalFailure.
  void march(int first, int count, double* u, bool taping, const RowVisitor& row);
  /// The adjoint of the state, which step_back takes and leaves behind.
  Vec lambda() const { return lambda_; }
  /// Transposes the last cell not yet transposed. gradient += its share. Collective.
  void step_back(std::span<double> gradient);
  /// After step_back: the state that cell started from, valid until the next call.
  const double* state_before() const;
  /// Bytes of the trajectory at present, without tapes.
  std::size_t bytes() const { return bytes_; }

 private:
  void set_callbacks();
  void set_adjoint();
  DepthPoint point(double time) const;
  double share(double time) const;
  void right_hand_side(double time, Vec x, Vec f);
  void transposed_product(Vec w, Vec bar);
  void parameter_product(Vec w);
  void after_step();
  void require_success(const char* what) const;

  MarchField& field_;
  AdjointMethod method_;
  bool keeps_;
  Tapes& tapes_;
  TSHandle ts_;
  VecHandle u_, lambda_, no_parameters_;
  Vec lambda_list_ = nullptr, no_parameters_list_ = nullptr;  // PETSc keeps pointers to these
  std::unique_ptr<ShellMatrix> jacobian_, parameter_jacobian_;
  // Where the Jacobians were asked for last.
  Vec at_ = nullptr, parameters_at_ = nullptr;
  DepthPoint at_point_, parameters_at_point_;
  double parameters_share_ = 0;
  int first_ = 0, count_ = 0, cell_ = 1, stage_ = 0;
  bool taping_ = false;
  const RowVisitor* row_ = nullptr;
  std::span<double> gradient_;
  std::vector<std::vector<double>> states_;  // implicit methods: rows first .. first + count - 1
  std::size_t bytes_ = 0;
};

}  // namespace fluxformer
