#pragma once

// The keys shared by all comparisons of a Transformer with PDE models.

#include <string>

#include "base/settings.hpp"

namespace fluxformer {

/// Declares what is compared: models.*, samples.*, data.*, run.seed and run.precision. The other keys are
/// those of a study's run (declare_study_run).
void declare_compared(Options& options);

/// The key that lists the epochs to analyse (ComparedModels::after_epoch).
Option epochs_option(const std::string& name);

}  // namespace fluxformer
