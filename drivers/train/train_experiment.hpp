#pragma once

// `train`: fits the weights of a Transformer, or of its PDE, to labelled samples.

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_train(io::Description& description);
std::unique_ptr<Experiment> make_train(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
