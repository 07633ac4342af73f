#pragma once

// What a training refuses: keys that would say nothing, and steps through depth that are not stable.

#include "base/options.hpp"
#include "data/dataset.hpp"
#include "mesh/token_line.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// Throws BadInput for time dependence, ranks over depth, and keys of the adjoint march (with other values
/// than their defaults: resolved settings hold all keys) where nothing looks at them. Not collective.
void refuse_what_training_ignores(const Settings& settings);

/// The data fix the token lattice: throws BadInput for other mesh.tokens_*. Not collective.
void refuse_other_lattice(const Settings& settings, const data::Dataset& data);

/// The largest kappa that explicit steps through depth bear, kappa (h/c) axes <= 1/2 (docs/model.md section
/// 3); without bound for the implicit ones. Throws BadInput if some of `parameters` is larger. Not
/// collective.
double largest_kappa(const Settings& settings, const Parameters& parameters, const TokenLine& line);

}  // namespace fluxformer
