#pragma once

// `paths.study = train`: the network of attention paths for one-shot examples, all of its weights trained.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Variables and coordinates that a file of trained networks holds.
std::vector<io::Variable> learner_variables();
std::vector<io::Variable> learner_coordinates();

/// Makes the experiment. Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_path_training(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
