#pragma once

// The plan of an ablation, one of its trainings, and the results of that.

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "analysis/states/model_states.hpp"
#include "base/settings.hpp"
#include "drivers/train/train_problem.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// A model and its training; the kind, the norm and the residual connection of the model's layers tell it
/// from other variants.
struct Variant {
  TrainPlan training;  ///< from the seeds of the deck

  const ModelSpec& spec() const { return training.model.spec; }
  /// The name in files and tables: "transformer_pre", "pde_none_no_residual".
  std::string name() const;
  /// The training from a seed, which is that of the weights, the samples and all draws.
  TrainPlan training_from(long seed) const;
};

/// An ablation.
struct AblationPlan {
  std::vector<Variant> variants;
  std::vector<long> seeds;  ///< each variant is trained once from each of them
  double diverged = 0;      ///< limit of losses, as a multiple of the loss of logits that are all 0
};
/// The plan by the settings. Throws BadInput as plan_of_training does. Not collective.
AblationPlan ablation_plan_of(const Settings& settings);

/// The loss of a model whose logits are all 0: ln of the number of classes for cross entropy.
double guess_loss(const Loss& loss, int classes);

/// The results of one training; the same on all ranks.
struct AblationRun {
  /// Loss before each step; NaN after an early end.
  std::vector<double> loss;
  /// Time of divergence: step from 0, epoch from 1; NaN if the training did not diverge. For losses that stay
  /// above the limit, it is the first step of the first such epoch.
  double diverged_step = std::numeric_limits<double>::quiet_NaN(), diverged_epoch = diverged_step;
  states::ModelStates tested =
      {};  ///< test measures by layer: at the embedded input and the end of each layer
};

/// One training of the ablation. A loss or gradient that is not finite means divergence and ends the training;
/// it has also diverged if from some epoch to the last more than half of the losses are above the limit: a bad
/// start or a spike that it recovers from does not count. Every member is collective.
class AblationTraining {
 public:
  /// Builds the training. Throws BadInput (agreed).
  AblationTraining(const TrainPlan& plan, MPI_Comm comm, double limit);

  long steps() const { return problem_.trainer->steps(); }
  /// Takes the remaining steps. `go_on(steps, loss)` is called after each step but the last one, the same on
  /// all ranks; returns false at once if it does.
  bool train(const std::function<bool(long steps, double loss)>& go_on);
  /// The results of a training that is complete. The test samples are evaluated with the last weights (after
  /// an early end, the last with finite loss and gradient).
  AblationRun result() const;

  /// Writes and reads all that the next step depends on, and the losses so far.
  void save(io::CheckpointWriter& file) const;
  void load(const io::CheckpointReader& file);

 private:
  double limit_;
  TrainProblem problem_;
  AblationRun run_;
  std::vector<double> weights_;  // the last with finite loss and gradient
};

// Detects divergence from the losses of the steps of a training.

/// The first epoch, counted from 0, from which on more than half of the losses of every epoch are above
/// `limit`; the number of epochs if those of the last are not. A bad start or a spike that the training
/// recovers from does not count. `loss`: whole epochs of `per_epoch` steps.
long diverged_since(double limit, const std::vector<double>& loss, long per_epoch);

}  // namespace fluxformer
