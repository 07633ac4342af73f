#pragma once

// `perturbation`: what noise, emptied tokens and adversarial steps do to a Transformer and to its PDE models.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

void describe_perturbation(io::Description& description);
void declare_perturbation(Options& options);
std::unique_ptr<Experiment> make_perturbation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
