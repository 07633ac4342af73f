#pragma once

// The keys of mesh, equation, depth, attention and model, shared by all experiments that build a model.

#include "base/settings.hpp"

namespace fluxformer {

/// Declares the keys of the model. Those that a model file decides have role `model`; the others are keys of
/// mesh and discretisation.
void declare_model_options(Options& options);

/// Omits keys of role `model` from the resolved settings if model.file is given, so that these settings can
/// be run again as they are.
void leave_model_to_file(Settings& settings);

}  // namespace fluxformer
