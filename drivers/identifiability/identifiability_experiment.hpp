#pragma once

// `identifiability`: how much attention weights and hidden tokens of trained models reveal.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `identifiability`.
void declare_identifiability(Options& options);

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_identifiability(io::Description& description);
std::unique_ptr<Experiment> make_identifiability(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
