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

/// Refuses a training whose parameters, with gradient and moments, and whose batch do not fit into memory.
/// `samples`: of a batch, on this rank's group. Collective over `comm`.
void require_memory_of_training(MPI_Comm comm, const Settings& settings, const Parameters& parameters,
                                const TokenLine& line, int samples);

}  // namespace fluxformer
