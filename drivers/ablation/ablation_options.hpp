#pragma once

// The keys of `ablation`: those of `train` plus its own.

#include "base/options.hpp"

namespace fluxformer {

/// Throws std::logic_error for a key that is declared twice, as Options::declare.
void declare_ablation(Options& options);

}  // namespace fluxformer
