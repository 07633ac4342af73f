#pragma once

// Equation (1) as described by a deck, ready to be evolved: input, weights, mesh, terms, integrator, state at
// t = 0.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/evolve/evolve_options.hpp"
#include "drivers/evolve/inflow.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

/// Makes a term of the equation beside those of the model. The term may borrow `slab`. Throws BadInput.
using MakeTerm = std::function<std::unique_ptr<Term>(const SlabContext& slab)>;

/// Everything that `evolve` needs to take its first step; every part is there once the problem is made.
/// Neither copied nor moved: later parts borrow earlier ones.
struct EvolveProblem {
  /// Builds the problem. Collective over `comm`. Throws BadInput (agreed) for anything in the plan that
  /// cannot run on these ranks.
  EvolveProblem(const EvolvePlan& plan, MPI_Comm comm, const std::vector<MakeTerm>& more_terms = {});
  EvolveProblem(const EvolveProblem&) = delete;
  EvolveProblem& operator=(const EvolveProblem&) = delete;
  /// Description of the equation and of the ranks that solve it.
  std::string describe() const;

  std::optional<Inflow> inflow;
  std::unique_ptr<Mesh> mesh;
  std::optional<Parameters> parameters;  ///< the parameters that this rank's cells need
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  std::optional<Equation> equation;
  EvolveSettings solver_settings;
  std::optional<Evolve> solver;
  std::vector<double> inflow_slab;  ///< slab of cell 0 at t = 0
};

}  // namespace fluxformer
