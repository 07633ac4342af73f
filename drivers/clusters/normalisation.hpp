#pragma once

// The normalisation of attention in studies of tokens that move, clusters.normalisation.

#include "analysis/clusters/growth_rates.hpp"
#include "base/options.hpp"
#include "base/settings.hpp"

namespace fluxformer {

/// Declares the key.
void declare_normalisation(Options& options);
/// Reads it.
clusters::Weights normalisation_of(const Settings& settings);
/// The group of the file for such tokens, which is also the word of the key.
const char* group_of(clusters::Weights normalisation);

}  // namespace fluxformer
