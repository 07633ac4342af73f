#pragma once

// `ablation`: what the residual connection and the normalisation do to a Transformer and to its PDE, each
// variant trained from several seeds.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `ablation`: those of `train` plus its own.
void declare_ablation(Options& options);

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_ablation(io::Description& description);
std::unique_ptr<Experiment> make_ablation(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
