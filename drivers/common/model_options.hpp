#pragma once

// The keys of mesh, equation, depth, attention and model, shared by all experiments that build a model.

#include "base/settings.hpp"

namespace fluxformer {

/// Role `model`: the keys that a model file decides; the others are those of mesh and discretisation.
void declare_model_options(Options& options);

/// With model.file, keys of role `model` are omitted from the resolved settings, so that these can be run
/// again as they are.
void leave_model_to_file(Settings& settings);

}  // namespace fluxformer
