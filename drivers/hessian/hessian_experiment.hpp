#pragma once

// `hessian`: spectrum and blocks of the Hessian of trained models.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Entries of the registry (ExperimentEntry): what its files hold, and the run. Making it
/// is collective and throws BadInput (agreed).
void describe_hessian(io::Description& description);
std::unique_ptr<Experiment> make_hessian(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
