#pragma once

// Training of a network of attention paths by Adam on fresh one-shot examples: each batch is shared out to
// the ranks, their gradients are summed, and every rank takes the same step. Source: docs/model.md, section
// 11.13.

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_learner.hpp"
#include "io/checkpoint.hpp"
#include "training/optimiser.hpp"

namespace fluxformer::paths {

/// Batch, rate and decay of the training.
struct LearnerPlan {
  int batch = 128;      ///< examples of a step, over all ranks
  double rate = 3e-4;   ///< learning rate of Adam
  double decay = 5e-5;  ///< weight decay: added to the gradient, times the weights
};

/// A network in training. Every member is collective unless it says otherwise.
class LearnerTraining {
 public:
  /// Starts from the initial weights of `seed`. The examples are borrowed.
  LearnerTraining(MPI_Comm comm, const LearnerShape& shape, const OneShotExamples& examples,
                  const LearnerPlan& plan, std::uint64_t seed);

  long steps() const { return optimiser_.state().steps; }
  /// The weights in doubles; the same on all ranks. Not collective.
  const std::vector<double>& weights() const { return weights_; }
  const LearnerWeights& places() const { return learner_.weights(); }

  /// Takes a step and returns the mean of (f - y)^2 over the batch before it. Throws NumericalFailure
  /// (agreed) if loss or gradient is not finite; the weights are then those before the step.
  double step();

  /// Mean loss and share of right signs over some examples.
  struct Score {
    double loss = 0, accuracy = 0;
  };
  /// The score of any weights on the first `count` examples.
  Score evaluate(const std::vector<double>& weights, const OneShotExamples& examples, int count);

  /// Writes and reads all that the next step depends on.
  void save(io::CheckpointWriter& checkpoint) const;
  void load(const io::CheckpointReader& checkpoint);

 private:
  /// Calls visit(tokens, targets) for this rank's share of `count` examples from `first` on, some at a time.
  template <typename Visit>
  void for_mine(const OneShotExamples& examples, std::uint64_t first, int count, const Visit& visit);

  MPI_Comm comm_;
  const OneShotExamples& examples_;
  LearnerPlan plan_;
  PathLearner<float> learner_;
  Optimiser optimiser_;
  std::vector<double> weights_, gradient_;
  std::vector<float> rounded_;
};

}  // namespace fluxformer::paths
