#pragma once

// The keys of the one-shot task and of the training of its network.

#include "base/options.hpp"

namespace fluxformer {

/// Where images, queries and keys come from.
void declare_one_shot(Options& options);
/// How a network is trained.
void declare_path_training(Options& options);

}  // namespace fluxformer
