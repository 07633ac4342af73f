#pragma once

// `perturbation`: response of a Transformer and its PDE models to noise, blanked tokens and adversarial
// steps.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_perturbation(io::Description& description);
void declare_perturbation(Options& options);
std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
