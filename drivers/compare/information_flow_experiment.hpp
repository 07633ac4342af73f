#pragma once

// `information_flow`: how the hidden states of a Transformer and of its PDE models change with depth, and how
// similar they are.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the contents of the files, the keys, and the run. The make_ function
/// is collective and throws BadInput (agreed).
void describe_information_flow(io::Description& description);
void declare_information_flow(Options& options);
std::unique_ptr<Experiment> make_information_flow(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
