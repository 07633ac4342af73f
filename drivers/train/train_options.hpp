#pragma once

// The keys of `train`.

#include "base/options.hpp"

namespace fluxformer {

/// Declares the keys of `train`: model and data, train, distill, adjoint, output, checkpoint and run.
void declare_train(Options& options);
/// Declares the keys of the objective and of the variables it is minimised over: loss, penalty, trained
/// coefficients.
void declare_minimised(Options& options);
/// Declares the keys that say how ranks share a step.
void declare_sharing(Options& options);
/// Declares the keys that TrainProblem reads, without those of model and data, and without run.seed.
void declare_training(Options& options);

}  // namespace fluxformer
