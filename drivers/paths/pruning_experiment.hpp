#pragma once

// `pruning`: heads of trained Transformers are silenced in the order of several scores.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_pruning(const Settings& settings, const RunContext& context);
/// What its files hold.
void describe_pruning(io::Description& description);

}  // namespace fluxformer
