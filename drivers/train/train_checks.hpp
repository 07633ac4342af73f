#pragma once

// Checks before a training: keys that a march through depth does not support, and unstable steps.

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "mesh/token_line.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Throws BadInput for diffusion in depth, schemes in depth, and ranks over depth. Not collective.
void refuse_what_training_ignores(const Settings& settings);

/// The data determine the token lattice: throws BadInput for different mesh.tokens_*. Not collective.
void refuse_other_lattice(const Settings& settings, const data::Dataset& data);

/// The largest kappa for which explicit steps through depth are stable, kappa (h/c) axes <= 1/2
/// (docs/model.md section 3); infinite for implicit ones. Throws BadInput if some of `parameters` is larger.
/// Not collective.
double largest_kappa(const Settings& settings, const Parameters& parameters, const TokenLine& line);

/// What a rank keeps of the states of its micro-batches.
struct KeptStates {
  DepthRange cells;             ///< of its stage
  int micro_batches = 1;        ///< at a time
  int tokens = 0, samples = 0;  ///< of a slab
  bool one_stage = true;        ///< the only one of the depth
};
/// Refuses a training whose parameters, with gradient and moments, and whose states do not fit into the memory of a rank, or
/// into run.memory. Collective over `comm`.
void require_memory_of_training(MPI_Comm comm, const Settings& settings, const Parameters& parameters,
                                const KeptStates& states);

}  // namespace fluxformer
