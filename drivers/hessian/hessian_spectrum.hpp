#pragma once

// `hessian_spectrum`: spectrum and blocks of the Hessian of trained models.

#include <memory>

#include "base/options.hpp"
#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Declares the keys: models, samples and data as in comparisons, the objective as in `train`, and its own.
void declare_hessian_spectrum(Options& options);

/// Registry entries (ExperimentEntry): the contents of the files, and the run. The make_ function is
/// collective and throws BadInput (agreed).
void describe_hessian_spectrum(io::Description& description);
std::unique_ptr<Experiment> make_hessian_spectrum(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
