#pragma once

// The keys shared by all comparisons of a Transformer with PDE models.

#include <string>

#include "base/settings.hpp"

namespace fluxformer {

/// Declares models.*, samples.*, data.*, output.*, run.*. `file`: the default of output.file.
void declare_compare_options(Options& options, const std::string& file);
/// The two parts of declare_compare_options: what is compared (models, samples, data, run.seed and
/// run.precision), and the rest.
void declare_compared(Options& options);
void declare_compare_run(Options& options, const std::string& file);

/// The key that lists the epochs to analyse (ComparedModels::after_epoch).
Option epochs_option(const std::string& name);

}  // namespace fluxformer
