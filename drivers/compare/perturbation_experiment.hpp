#pragma once

// `perturbation`: response of a Transformer and its PDE models to noise, blanked tokens and adversarial
// steps.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// The three entries of the registry (ExperimentEntry): what its files hold, its keys, and the run. Making it
/// is collective and throws BadInput (agreed).
void describe_perturbation(io::Description& description);
void declare_perturbation(Options& options);
std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
