#pragma once

// The keys of `hessian`: models, samples and data as in comparisons, the objective as in `train`, and keys of
// its own.

#include "base/options.hpp"

namespace fluxformer {

/// Declares the keys. Throws std::logic_error for a key that is declared twice, as Options::declare does.
void declare_hessian(Options& options);

}  // namespace fluxformer
