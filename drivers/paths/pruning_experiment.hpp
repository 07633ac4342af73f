#pragma once

// `pruning`: heads of trained Transformers are silenced in the order of several scores.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `pruning`.
void declare_pruning(Options& options);

/// Makes the experiment. Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_pruning(const Settings& settings, const RunContext& context);
/// Describes the contents of the experiment's files.
void describe_pruning(io::Description& description);

}  // namespace fluxformer
