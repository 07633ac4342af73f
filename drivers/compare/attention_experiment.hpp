#pragma once

// `attention`: similarity of the attention of a Transformer and of its PDE models, with the scores of rows
// that do not depend on the input as baselines.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_attention(io::Description& description);
void declare_attention(Options& options);
std::unique_ptr<Experiment> make_attention(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
