#pragma once

// The keys of `paths`.

#include "base/options.hpp"

namespace fluxformer {

/// Where images, queries and keys come from.
void declare_one_shot(Options& options);
/// How a network is trained.
void declare_path_training(Options& options);

/// Declares them all, and those of every run.
void declare_paths(Options& options);

}  // namespace fluxformer
