#pragma once

// The keys of `paths`.

#include "base/options.hpp"

namespace fluxformer {

/// Declares them all, and those of every run.
void declare_paths(Options& options);

}  // namespace fluxformer
