#pragma once

// `perturbation`: response of a Transformer and its PDE models to noise, blanked tokens and adversarial
// steps.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

void describe_perturbation(io::Description& description);
void declare_perturbation(Options& options);
std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
