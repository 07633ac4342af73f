#pragma once

// The keys of mesh, equation, depth, attention and model, which experiments that make a model share.

#include "base/settings.hpp"

namespace fluxformer {

void declare_model_options(Options& options);

/// With model.file, the keys of role `model` are left out of the resolved settings: they run again as they are.
void leave_model_to_file(Settings& settings);

}  // namespace fluxformer
