#pragma once

// What a training refuses: keys that a march through depth cannot follow, and steps that are not stable.

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "mesh/token_line.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Throws BadInput for diffusion in depth, schemes in depth, and ranks over depth. Not collective.
void refuse_what_training_ignores(const Settings& settings);

/// The data fix the token lattice: throws BadInput for other mesh.tokens_*. Not collective.
void refuse_other_lattice(const Settings& settings, const data::Dataset& data);

/// The largest kappa that explicit steps through depth bear, kappa (h/c) axes <= 1/2 (docs/model.md section
/// 3); without bound for the implicit ones. Throws BadInput if some of `parameters` is larger. Not
/// collective.
double largest_kappa(const Settings& settings, const Parameters& parameters, const TokenLine& line);

}  // namespace fluxformer
