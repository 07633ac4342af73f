#pragma once

// Equation (1) as described by a deck, ready to be evolved: input, weights, mesh, terms, integrator, state at
// t = 0.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "drivers/common/model_settings.hpp"
#include "drivers/evolve/inflow.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

/// Makes a term of the equation beside those of the model. The term may borrow `slab`. Throws BadInput.
using MakeTerm = std::function<std::unique_ptr<Term>(const Settings& settings, const SlabContext& slab)>;

/// Everything that `evolve` needs to take its first step. Neither copied nor moved: its members refer to each
/// other.
struct EvolveProblem {
  /// Builds the problem. Collective over `comm`. Throws BadInput (agreed) for anything in the settings that
  /// cannot run on these ranks.
  EvolveProblem(const Settings& settings, MPI_Comm comm, const std::vector<MakeTerm>& more_terms = {});
  EvolveProblem(const EvolveProblem&) = delete;
  EvolveProblem& operator=(const EvolveProblem&) = delete;
  /// Description of the equation and of the ranks that solve it.
  std::string describe() const;

  // Later members borrow earlier ones.
  Inflow inflow;

 private:
  std::unique_ptr<Mesh>
      mesh_;  // made as soon as the sizes of the model are known, before its parameters are read

 public:
  Parameters parameters;  ///< the parameters that this rank's cells need
  Mesh& mesh;
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  Equation equation;
  EvolveSettings solver_settings;
  Evolve solver;
  std::vector<double> inflow_slab;  ///< slab of cell 0 at t = 0
};

}  // namespace fluxformer
