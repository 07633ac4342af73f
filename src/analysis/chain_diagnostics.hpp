#pragma once

// Convergence of Markov chains: have they forgotten their initial values, and how many independent draws are
// they worth? Source: Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), sections 11.4 and 11.5. Not
// collective.

#include <vector>

namespace fluxformer {

/// Values of one quantity along chains of equal length, [chain][draw].
using Chains = std::vector<std::vector<double>>;

/// Split R-hat: square root of the variance between and within half chains over the variance within. It is 1
/// if all halves agree or nothing varies, infinite if constant halves differ, and NaN for fewer than four
/// draws.
double split_r_hat(const Chains& chains);

/// Effective number of draws of all chains together: number of draws over 1 + 2 sum of autocorrelations. The
/// sum is over pairs of lags while these are positive and made monotone (Geyer). At most the number of draws
/// times its logarithm (base 10); NaN if nothing varies or for fewer than four draws.
double effective_draws(const Chains& chains);

}  // namespace fluxformer
