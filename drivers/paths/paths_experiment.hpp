#pragma once

// `paths_theory`, `paths_sample` and `paths_prune`: the statistical mechanics of attention paths by theory, and
// beside it draws from the posterior, or trained networks that lose heads.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Registry entries (ExperimentEntry): the keys, the contents of the files, and the runs. The make_ functions
/// are collective and throw BadInput (agreed).
void declare_paths_theory(Options& options);
void declare_paths_sample(Options& options);
void declare_paths_prune(Options& options);
void describe_paths_theory(io::Description& description);
void describe_paths_sample(io::Description& description);
void describe_paths_prune(io::Description& description);
std::unique_ptr<Experiment> make_paths_theory(const Settings& settings, const RunContext& context);
std::unique_ptr<Experiment> make_paths_sample(const Settings& settings, const RunContext& context);
std::unique_ptr<Experiment> make_paths_prune(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
