#pragma once

// One training of the ablation, and what it left behind.

#include <mpi.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "analysis/states/state_measures.hpp"
#include "base/settings.hpp"

namespace fluxformer {

/// What is left out of a layer, or put into it.
struct Variant {
  std::string kind;  ///< transformer, pde
  bool residual = true;
  std::string norm;  ///< none, pre, post
  /// "transformer_pre", "pde_none_no_residual".
  std::string name() const;
};

struct AblationRun {
  /// Of each step, before it; NaN from where the training ended early.
  std::vector<double> loss;
  /// When it diverged: step from 0, epoch from 1; NaN if it did not. Losses that stay above the limit count
  /// from the first step of the first epoch on.
  double diverged_step = std::numeric_limits<double>::quiet_NaN(), diverged_epoch = diverged_step;
  double test_accuracy = 0;
  states::StateMeasures states;  ///< of the test samples, one depth per layer and the embedded input

  bool diverged() const { return !std::isnan(diverged_step); }
};

/// The loss of a model whose logits are all 0: ln of the number of classes for cross entropy.
double guess_loss(const Settings& settings, int classes);

/// Trains as `settings` say. The training has diverged, and ends, where a loss or its gradient is not finite;
/// it has diverged too if from some epoch to the last more than half of the losses are above `limit`: a bad
/// start, or a spike that it recovers from, does not count. Test samples are shown the last weights, of those
/// whose loss and gradient were finite where it ended early. `go_on(step, loss)` after each step, the same on
/// all ranks; none if it said no. Collective over `comm`; throws BadInput (agreed).
std::optional<AblationRun> run_ablation(const Settings& settings, MPI_Comm comm, double limit,
                                        const std::function<bool(long, double)>& go_on);

}  // namespace fluxformer
