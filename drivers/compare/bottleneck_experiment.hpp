#pragma once

// `bottleneck`: mutual information of hidden states with the input and with the label, by depth and over
// training, with several estimators.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

void describe_bottleneck(io::Description& description);
void declare_bottleneck(Options& options);
std::unique_ptr<Experiment> make_bottleneck(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
