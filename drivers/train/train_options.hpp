#pragma once

// The keys of `train`.

#include "base/options.hpp"

namespace fluxformer {

/// Those of model and data, and of train, distill, adjoint, output, checkpoint and run.
void declare_train(Options& options);
/// What is minimised and over which variables: loss, penalty, trained coefficients.
void declare_minimised(Options& options);
/// How ranks share a step.
void declare_sharing(Options& options);
/// The subset that TrainProblem reads, without those of model and data, and run.seed.
void declare_training(Options& options);

}  // namespace fluxformer
