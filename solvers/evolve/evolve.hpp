#pragma once

// Integration of equation (1) in time by PETSc TS on the depth x token mesh.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "solvers/evolve/field_operator.hpp"

namespace fluxformer {

/// The keys evolve.* of a deck as numbers, and inflow.every.
struct EvolveSettings {
  std::string method = "ssp";  ///< ssp | rk | euler | arkimex, or any TS type with [petsc] ts_type
  std::string variant;  ///< PETSc's name of the variant (rks3, 4, 3bs, ...); "": ssp rks2, rk 4, arkimex 3
  double dt = 0;        ///< 0: from cfl
  double cfl = 0.5;  ///< step as a multiple of forward Euler's limit with first-order transport (c dt/h = 1)
  double time = 1;   ///< end time, unless a steady state is reached earlier
  double adaptive_tolerance = 0;  ///< > 0: error-controlled steps (rk, arkimex), relative and absolute
  double steady_tolerance = 0;    ///< > 0: stop when max ||du/dt|| / max(||u||, tiny) falls below
  double max_norm = 1e8;          ///< largest |u| allowed anywhere
  double inflow_every = 0;        ///< time between changes of the inflow; 0: it is constant
};

/// The state of the integrator besides u: time, size of the next step, number of steps taken.
struct Clock {
  double time = 0;
  double step_size = 0;
  long step = 0;
};

/// A step that was taken, with the states after and before it.
struct Step {
  Clock clock;
  Vec u = nullptr;
  Vec previous = nullptr;  ///< the state one step earlier
};
/// Called on all ranks after each step; returning false stops the run.
using StepHook = std::function<bool(const Step&)>;

/// Fills the slab of cell 0 for the `block`-th interval of length inflow_every.
using InflowSource = std::function<void(long block, double* slab)>;

/// The reason why `run` returned.
enum class EvolveEnd { time_reached, steady, stopped_by_hook };

/// The PETSc TS of an equation on a mesh, with the state it integrates.
class Evolve {
 public:
  /// Collective over the mesh. `mesh` and `equation` are borrowed. Throws BadInput if the step is above the
  /// stability limit (the message names the rule and the largest stable step) or the method cannot be used
  /// with the scheme.
  Evolve(const Mesh& mesh, const Equation& equation, const EvolveSettings& settings);
  ~Evolve();
  Evolve(const Evolve&) = delete;
  Evolve& operator=(const Evolve&) = delete;

  /// Sets the source, which is asked for the block of each new interval. Without a source the inflow is 0.
  void set_inflow(InflowSource source);
  /// The state u, initially zero. It is to be set before `run`.
  Vec state() const;
  /// The inflow of the last step: the slab of cell 0.
  const std::vector<double>& inflow() const;
  /// Continues from a checkpoint; call after filling `state`. Fixed steps are those of the checkpoint unless
  /// they would miss the end time.
  void restore(const Clock& clock);
  /// Makes the integrator forget earlier steps. Every run does so at scheduled checkpoints, so that methods
  /// with memory take the same steps after a restart.
  void forget_history();

  /// Integrates to the end time, a steady state, or until `hook` returns false. Collective. Throws
  /// NumericalFailure (agreed) when the state is not finite or passes max_norm, or a solve fails; `state()`
  /// is then the last good state and `clock()` belongs to it.
  EvolveEnd run(const StepHook& hook);

  /// The time of `state()`, the size of the next step and the number of steps taken.
  Clock clock() const;
  /// The step size that follows from limits and settings; 0 if the integrator chooses.
  double step_size() const;

  /// The equation, which of its terms are treated implicitly, and what limits the step, in a few lines.
  std::string describe() const;

  /// out = du/dt at `u`, all terms. Collective.
  void rate(Vec u, Vec out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fluxformer
