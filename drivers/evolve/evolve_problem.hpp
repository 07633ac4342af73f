#pragma once

// Equation (1) as described by a deck, ready to be evolved: input, weights, mesh, terms, integrator, state at
// t = 0.

#include <memory>
#include <string>
#include <vector>

#include "drivers/common/model_settings.hpp"
#include "drivers/evolve/inflow.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

struct EvolveProblem {
  /// Collective over `comm`. Throws BadInput (agreed) for anything in the settings that cannot run on these
  /// ranks.
  EvolveProblem(const Settings& settings, MPI_Comm comm);
  EvolveProblem(const EvolveProblem&) = delete;
  EvolveProblem& operator=(const EvolveProblem&) = delete;
  /// What is solved, on which ranks, and the equation.
  std::string describe() const;

  // Later members borrow earlier ones.
  Inflow inflow;
  Parameters parameters;
  Mesh mesh;
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  Equation equation;
  EvolveSettings solver_settings;
  Evolve solver;
  std::vector<double> inflow_slab;  ///< slab of cell 0 at t = 0
};

}  // namespace fluxformer
