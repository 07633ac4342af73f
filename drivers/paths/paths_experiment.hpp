#pragma once

// `paths`: the statistical mechanics of attention paths.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys of `paths`.
void declare_paths(Options& options);

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_paths(io::Description& description);
std::unique_ptr<Experiment> make_paths(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
