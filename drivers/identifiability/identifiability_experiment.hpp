#pragma once

// `identifiability`: what attention weights and hidden tokens of trained models can tell.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `identifiability`.
void declare_identifiability(Options& options);

/// The entries of the registry (ExperimentEntry), beside declare_identifiability. Making it is collective and throws
/// BadInput (agreed).
void describe_identifiability(io::Description& description);
std::unique_ptr<Experiment> make_identifiability(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
