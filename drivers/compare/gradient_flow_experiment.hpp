#pragma once

// `gradient_flow`: how the gradient of the loss propagates back through depth in a Transformer and its PDE
// models, and the Jacobians of their layers.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// The three entries of the registry (ExperimentEntry): what its files hold, its keys, and the run. Making it
/// is collective and throws BadInput (agreed).
void describe_gradient_flow(io::Description& description);
void declare_gradient_flow(Options& options);
std::unique_ptr<Experiment> make_gradient_flow(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
