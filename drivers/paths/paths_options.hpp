#pragma once

// The keys of `paths`.

#include "base/options.hpp"

namespace fluxformer {

/// Declares the keys that say where images, queries and keys come from.
void declare_one_shot(Options& options);
/// Declares the keys of the training of a network.
void declare_path_training(Options& options);

/// Declares all keys of `paths`, and those of every run.
void declare_paths(Options& options);

}  // namespace fluxformer
