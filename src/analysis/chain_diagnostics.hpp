#pragma once

// Whether Markov chains have forgotten where they began, and how many independent draws they are worth. Source: Gelman et al., Bayesian
// Data Analysis, 3rd ed. (2013), sections 11.4 and 11.5. Not collective.

#include <vector>

namespace fluxformer {

/// One quantity along chains of equal length: [chain][draw].
using Chains = std::vector<std::vector<double>>;

/// Split R-hat: the root of (variance between and within half chains, over that within). 1 where all halves agree; NaN for fewer than four
/// draws, infinite where halves differ that do not vary, 1 where nothing varies.
double split_r_hat(const Chains& chains);

/// Effective number of draws of all chains together: their number over 1 + 2 sum of autocorrelations, summed in pairs as long as these
/// are positive and made monotone (Geyer). At most the number of draws times its logarithm (base 10); NaN where nothing varies or for fewer
/// than four draws.
double effective_draws(const Chains& chains);

}  // namespace fluxformer
