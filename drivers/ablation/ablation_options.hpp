#pragma once

// The keys of `ablation`: those of `train` plus its own.

#include "base/options.hpp"

namespace fluxformer {

void declare_ablation(Options& options);

}  // namespace fluxformer
