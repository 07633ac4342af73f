#pragma once

// `gradient_flow`: how the gradient of the loss propagates back through depth in a Transformer and its PDE
// models, and the Jacobians of their layers.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_gradient_flow(io::Description& description);
void declare_gradient_flow(Options& options);
std::unique_ptr<Experiment> make_gradient_flow(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
