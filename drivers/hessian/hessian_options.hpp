#pragma once

// The keys of `hessian`: models, samples and data as in comparisons, what is minimised as in `train`, its own.

#include "base/options.hpp"

namespace fluxformer {

/// Throws std::logic_error for a key that is declared twice, as Options::declare.
void declare_hessian(Options& options);

}  // namespace fluxformer
