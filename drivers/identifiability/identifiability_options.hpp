#pragma once

// The keys of `identifiability`.

#include "base/options.hpp"

namespace fluxformer {

/// Declares them all, those of models, samples, data and output included.
void declare_identifiability(Options& options);

}  // namespace fluxformer
