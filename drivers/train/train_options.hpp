#pragma once

// The keys of `train`.

#include "base/options.hpp"

namespace fluxformer {

void declare_train(Options& options);
/// Those of them that TrainProblem reads, but for those of model and data, and run.seed.
void declare_training(Options& options);

}  // namespace fluxformer
