#include "solvers/adjoint/adjoint_stepper.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer {
namespace {

constexpr const char* runge_kutta_names[] = {
    AdjointSettings::layer_map_name, "2a", "2b", "3", "3bs", "4", "5f", "5dp", "5bs", "6vr", "7vr", "8vr"};
constexpr const char* implicit_names[] = {"beuler", "cn", "theta"};

bool is_among(std::span<const char* const> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string all_names() {
  std::string list;
  for (const auto* name : runge_kutta_names) list += std::string(name) + ", ";
  return list + "beuler, cn, theta";
}

}  // namespace

AdjointMethod::AdjointMethod(const AdjointSettings& settings)
    : name_(settings.method), theta_(settings.theta), runge_kutta_(is_among(runge_kutta_names, name_)) {
  if (!runge_kutta_ && !is_among(implicit_names, name_))
    throw BadInput("adjoint.method = " + name_ +
                   ": a gradient needs a method with a discrete adjoint: " + all_names());
  if (name_ == "theta" && !(theta_ > 0 && theta_ <= 1))
    throw BadInput("adjoint.theta = " + std::to_string(theta_) + ": must be in (0, 1]");
  if (name_ == "beuler") theta_ = 1;
}

void AdjointMethod::set(TS ts) {
  if (!runge_kutta_) {
    check(TSSetType(ts, name_.c_str()));
    if (name_ == "theta") check(TSThetaSetTheta(ts, theta_));
    if (name_ == "cn") theta_ = 0.5;
    // An implicit step evaluates F at its start, at the fraction theta or at its end.
    shares_ = {0, theta_, 1};
    return;
  }
  check(TSSetType(ts, TSRK));
  check(TSRKSetType(ts, name_.c_str()));
  PetscInt stages = 0, order = 0;
  const PetscReal *b = nullptr, *c = nullptr;
  PetscBool same_stage = PETSC_FALSE;
  check(TSRKGetTableau(ts, &stages, nullptr, &b, &c, nullptr, &order, nullptr, &same_stage));
  weights_.assign(b, b + stages);
  shares_.assign(c, c + stages);
  reuses_last_stage_ = same_stage == PETSC_TRUE;
}

double AdjointMethod::stage_factor(int stage) const {
  // TSAdjointStep_RK: lambda += h b_i J_i^T w_i, or h J_i^T w_i where b_i = 0.
  const double b = weights_[stage];
  return b != 0 ? b : 1;
}

double AdjointMethod::parameter_factor(double share) const {
  // cn: u' = u + h ((1 - theta) F(u) + theta F(u')); beuler and theta evaluate F at one point only.
  if (name_ != "cn") return 1;
  return share == 0 ? 1 - theta_ : theta_;
}

double AdjointMethod::exact_share(double share) const {
  // c_i of the tableau, or 0, theta and 1
  for (const double exact : shares_)
    if (std::abs(share - exact) < 1e-9) return exact;
  return share;
}

Tape& AdjointStepper::Tapes::of(DepthModel& model, int index) {
  while (std::ssize(tape) <= index) tape.push_back(model.make_tape(Order::first));
  return *tape[index];
}

std::size_t AdjointStepper::Tapes::bytes() const {
  Index total = 0;
  for (const auto& one : tape) total += one->bytes();
  return total;
}

AdjointStepper::AdjointStepper(MarchField& field, const AdjointSettings& settings, Trajectory trajectory,
                               Tapes& tapes)
    : field_(field),
      method_(settings),
      keeps_(trajectory == Trajectory::kept),
      tapes_of_stages_(settings.tapes && method_.explicit_stages() && !method_.layer_map()),
      tapes_(tapes) {
  check(VecCreateMPI(field.comm(), field.size(), PETSC_DECIDE, u_.out()));
  check(TSCreate(field.comm(), ts_.out()));
  check(TSSetProblemType(ts_, TS_NONLINEAR));
  method_.set(ts_);
  set_callbacks();
  if (keeps_) set_adjoint();
  // Steps of one cell each: a fixed size, and no interpolation to the end time.
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts_, &adapt));
  check(TSAdaptSetType(adapt, TSADAPTNONE));
  check(TSSetExactFinalTime(ts_, TS_EXACTFINALTIME_STEPOVER));
  check(TSSetErrorIfStepFails(ts_, PETSC_FALSE));
  if (!method_.explicit_stages()) {
    SNES newton = nullptr;
    check(TSGetSNES(ts_, &newton));
    set_tolerances(newton, settings.newton_tolerance, settings.linear_tolerance);
    check(SNESSetOptionsPrefix(newton, "march_"));
    check(SNESSetFromOptions(newton));
  }
}

void AdjointStepper::march(int first, int count, double* u, bool taping, const RowEdit& edit,
                           const RowVisitor& row) {
  first_ = first;
  count_ = count;
  cell_ = first + 1;
  stage_ = 0;
  taping_ = taping;
  back_ = false;
  edit_ = &edit;
  row_ = &row;
  states_.clear();
  ends_.clear();
  std::copy_n(u, field_.size(), WriteArray(u_).values);
  if (keeps_) {
    // PETSc refuses a second solve without an adjoint in between unless the trajectory is reset.
    TSTrajectory trajectory = nullptr;
    check(TSGetTrajectory(ts_, &trajectory));
    check(TSTrajectoryReset(trajectory));
  }
  // Time counts cells, du/dtau = (h/c) F_s(u) or, for the layer map, G(u; h/c) - u: from tau = first in
  // `count` steps of length 1.
  check(TSSetTime(ts_, first));
  check(TSSetStepNumber(ts_, 0));
  check(TSSetTimeStep(ts_, 1));
  check(TSSetMaxSteps(ts_, count));
  check(TSSetMaxTime(ts_, first + count));
  check(TSRestartStep(ts_));
  if (keeps_ && !method_.explicit_stages()) states_.emplace_back(u, u + field_.size());
  check(TSSolve(ts_, u_));
  require_success("the march through depth");
  std::copy_n(ReadArray(u_).values, field_.size(), u);
  if (keeps_) {
    PetscInt stages = 0;
    check(TSGetStages(ts_, &stages, nullptr));
    // The last step's stages and the last state are the integrator's own, not the trajectory's.
    const auto steps = Index{count - 1} * stages + states_.size() + ends_.size();
    bytes_ = steps * field_.size() * sizeof(double);
  }
}

void AdjointStepper::require_success(const char* what) const {
  TSConvergedReason reason = TS_CONVERGED_ITERATING;
  check(TSGetConvergedReason(ts_, &reason));
  if (reason < 0)
    throw NumericalFailure(std::string(what) + " stopped in cell " + std::to_string(cell_) + " (" +
                           TSConvergedReasons[reason] + "); a smaller depth step (more mesh.cells) may help");
}

void AdjointStepper::after_step() {
  const bool edited = static_cast<bool>(*edit_);
  if (edited) {
    const WriteArray state(u_);
    if (keeps_ && !method_.explicit_stages()) ends_.emplace_back(state.values, state.values + field_.size());
    (*edit_)(cell_, state.values);
  }
  if (*row_) (*row_)(cell_, ReadArray(u_).values);
  // show_start needs u_{i-1} of each cell i: an explicit step has it as its first stage, an implicit one
  // keeps it here.
  const bool more = cell_ < first_ + count_;
  if (keeps_ && !method_.explicit_stages() && more) {
    const ReadArray state(u_);
    states_.emplace_back(state.values, state.values + field_.size());
  }
  ++cell_;
  stage_ = 0;
  // The last stage was evaluated with the layer and the length of this cell, and at the state before the edit:
  // the next step must not reuse it.
  if (method_.reuses_last_stage() && (edited || field_.constant_weights() || !field_.depth().equal()))
    check(TSRestartStep(ts_));
}

void AdjointStepper::step_back(std::span<double> gradient) {
  // PETSc asks for the transposed products of the stages from the last to the first, with the state of each.
  --cell_;
  stage_ = method_.transposed_stages();
  gradient_ = gradient;
  check(TSAdjointSetSteps(ts_, 1));
  back_ = true;
  check(TSAdjointSolve(ts_));
  back_ = false;
  require_success("the adjoint of the march through depth");
}

void AdjointStepper::show_start(const RowAdjoint& row) const {
  const WriteArray bar(lambda_);
  if (!method_.explicit_stages()) return row(cell_ - 1, states_[cell_ - 1 - first_].data(), bar.values);
  // The first stage of an explicit step is the state it starts from.
  PetscInt stages = 0;
  Vec* stage = nullptr;
  check(TSGetStages(ts_, &stages, &stage));
  row(cell_ - 1, ReadArray(stage[0]).values, bar.values);
}

double AdjointStepper::share(double time) const {
  return method_.exact_share(time - (cell_ - 1));
}

DepthPoint AdjointStepper::point(double time) const {
  // Without round-off at the ends: slightly beyond its exit a cell would use the next knots.
  return field_.depth().at(cell_, share(time));
}

Vec AdjointStepper::linearisation_point(double time, Vec x) {
  // PETSc takes the kept state after a step for the end of that step, which an edit has moved since.
  if (!back_ || ends_.empty() || share(time) != 1) return x;
  if (end_ == nullptr) check(VecDuplicate(u_, end_.out()));
  std::ranges::copy(ends_[cell_ - 1 - first_], WriteArray(end_).values);
  return end_;
}

Tape& AdjointStepper::stage_tape(int stage) {
  // The tapes are [cell of the segment][stage]; a march that is not kept writes to those of the first cell.
  const int cell = keeps_ ? cell_ - 1 - first_ : 0;
  return tapes_.of(field_.model(), cell * method_.transposed_stages() + stage);
}

void AdjointStepper::right_hand_side(double time, Vec x, Vec f) {
  // f = (h/c) F_s(x), s the depth of the stage
  if (!method_.layer_map()) {
    Tape* const tape = tapes_of_stages_ && taping_ ? &stage_tape(stage_++) : nullptr;
    return field_.field(point(time), field_.step(cell_), x, f, tape);
  }
  // The layer map as a step of forward Euler of length 1: f = G(u; h/c) - u.
  const ReadArray from(x);
  const WriteArray to(f);
  auto& model = field_.model();
  Tape* const tape = taping_ ? &tapes_.of(model, keeps_ ? cell_ - 1 - first_ : 0) : nullptr;
  model.map(field_.entry(cell_), field_.step(cell_), from.values, to.values, tape);
  for (Index j = 0, count = field_.size(); j < count; ++j) to.values[j] -= from.values[j];
}

void AdjointStepper::transposed_product(Vec w, Vec bar) {
  // For implicit methods this is a product within a Krylov solver, bar = (h/c) (dF/du)^T w, not part of the
  // gradient.
  if (!method_.explicit_stages())
    return field_.adjoint(at_point_, field_.step(cell_), at_, w, bar, {}, nullptr);
  --stage_;
  if (!method_.layer_map()) {
    // bar = (h/c) (dF/du)^T w and gradient += b_i (h/c) (dF/dtheta)^T w at stage i, with 1 for b_i = 0. PETSc
    // itself multiplies `bar` by this factor, which is therefore taken out again.
    const double factor = method_.stage_factor(stage_);
    Tape* const tape = tapes_of_stages_ ? &stage_tape(stage_) : nullptr;
    field_.adjoint(at_point_, factor * field_.step(cell_), at_, w, bar, gradient_, tape);
    check(VecScale(bar, 1 / factor));
    return;
  }
  // bar = (dG/du - I)^T w and gradient += (dG/dtheta)^T w, with G(u; h/c) of this cell
  const ReadArray from(at_), outer(w);
  const WriteArray to(bar);
  auto& model = field_.model();
  model.pull(field_.entry(cell_), field_.step(cell_), from.values, outer.values, to.values, gradient_,
             &tapes_.of(model, cell_ - 1 - first_), Order::first);
  for (Index j = 0, count = field_.size(); j < count; ++j) to.values[j] -= outer.values[j];
}

void AdjointStepper::parameter_product(Vec w) {
  // gradient += factor (h/c) (dF/dtheta)^T w; the product with respect to the state is not needed here.
  VecHandle unused;
  check(VecDuplicate(w, unused.out()));
  const double factor = method_.parameter_factor(parameters_share_);
  field_.adjoint(parameters_at_point_, factor * field_.step(cell_), parameters_at_, w, unused, gradient_,
                 nullptr);
}

// The PETSc callbacks of AdjointStepper.

void AdjointStepper::set_callbacks() {
  check(TSSetRHSFunction(
      ts_, nullptr,
      [](TS, PetscReal time, Vec x, Vec f, void* context) {
        return guarded([&] { static_cast<AdjointStepper*>(context)->right_hand_side(time, x, f); });
      },
      this));
  check(TSSetApplicationContext(ts_, this));
  check(TSSetPostStep(ts_, [](TS stepper) {
    return guarded([&] {
      void* context = nullptr;
      check(TSGetApplicationContext(stepper, &context));
      static_cast<AdjointStepper*>(context)->after_step();
    });
  }));
  if (!keeps_ && method_.explicit_stages()) return;  // no Jacobian needed
  jacobian_ = std::make_unique<ShellMatrix>(
      u_, [this](Vec x, Vec y) { field_.tangent(at_point_, field_.step(cell_), at_, x, y); },
      [this](Vec x, Vec y) { transposed_product(x, y); });
  check(TSSetRHSJacobian(
      ts_, jacobian_->get(), jacobian_->get(),
      [](TS, PetscReal time, Vec x, Mat, Mat, void* context) {
        return guarded([&] {
          auto& me = *static_cast<AdjointStepper*>(context);
          me.at_ = me.linearisation_point(time, x);
          me.at_point_ = me.point(time);
          me.jacobian_->changed();
        });
      },
      this));
}

void AdjointStepper::set_adjoint() {
  check(TSSetSaveTrajectory(ts_));
  TSTrajectory trajectory = nullptr;
  check(TSGetTrajectory(ts_, &trajectory));
  check(TSTrajectorySetType(trajectory, ts_, TSTRAJECTORYMEMORY));
  check(TSTrajectorySetSolutionOnly(trajectory, PETSC_FALSE));
  check(VecDuplicate(u_, lambda_.out()));
  lambda_list_ = lambda_;
  if (method_.explicit_stages()) {
    check(TSSetCostGradients(ts_, 1, &lambda_list_, nullptr));
    return;
  }
  // The gradient is added to our own vector when PETSc multiplies with the parameters' Jacobian; for PETSc
  // that product is one zero per rank.
  check(VecCreateMPI(field_.comm(), 1, PETSC_DECIDE, no_parameters_.out()));
  check(VecZeroEntries(no_parameters_));
  no_parameters_list_ = no_parameters_;
  check(TSSetCostGradients(ts_, 1, &lambda_list_, &no_parameters_list_));
  parameter_jacobian_ =
      std::make_unique<ShellMatrix>(u_, no_parameters_, ShellMatrix::Product{}, [this](Vec w, Vec zero) {
        parameter_product(w);
        check(VecZeroEntries(zero));
      });
  check(TSSetRHSJacobianP(
      ts_, parameter_jacobian_->get(),
      [](TS, PetscReal time, Vec x, Mat, void* context) {
        return guarded([&] {
          auto& me = *static_cast<AdjointStepper*>(context);
          me.parameters_at_ = me.linearisation_point(time, x);
          me.parameters_at_point_ = me.point(time);
          me.parameters_share_ = me.share(time);
          me.parameter_jacobian_->changed();
        });
      },
      this));
}

}  // namespace fluxformer
