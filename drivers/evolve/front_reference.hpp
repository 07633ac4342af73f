#pragma once

// The steady state u* behind the information front.

#include <functional>
#include <vector>

#include "mesh/mesh.hpp"
#include "solvers/evolve/evolve.hpp"

namespace fluxformer {

/// Computes u* on the rank's cells, [cell][token][sample][channel], in single precision (the threshold of a
/// front is 5 %). It is marched through depth or, if epsilon > 0 couples depth in both directions or the
/// equation has added terms, evolved to the steady state. Empty if `stop` ended the search; it is called
/// after each step. Collective over the mesh, as `stop` must be. Throws NumericalFailure (agreed) if u* is
/// not found.
std::vector<float> front_reference(const Mesh& mesh, const Equation& equation, const EvolveSettings& settings,
                                   const std::vector<double>& inflow_slab, const std::function<bool()>& stop);

}  // namespace fluxformer
