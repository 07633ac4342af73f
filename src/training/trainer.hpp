#pragma once

// Stochastic gradient descent on ranks that share samples, tokens and depth: each group of ranks computes the
// gradient of its share of the batch, the gradients are summed during the backward pass, and every rank takes
// the step of its parameters.

#include <mpi.h>

#include <span>
#include <vector>

#include "base/index.hpp"
#include "io/checkpoint.hpp"
#include "model/gradient_evaluator.hpp"
#include "training/batches.hpp"
#include "training/optimiser.hpp"
#include "training/optimiser_record.hpp"
#include "training/pipeline.hpp"
#include "training/schedule.hpp"
#include "training/stage_parameters.hpp"
#include "training/trainable.hpp"
#include "training/training_ranks.hpp"

namespace fluxformer {

/// Sums a gradient over ranks in buckets, by non-blocking messages that travel while the rest is computed.
class GradientSum {
 public:
  /// `bucket` is the least number of entries that are sent together (the last bucket may be smaller).
  GradientSum(MPI_Comm comm, Index bucket);

  /// Entries first .. first + count - 1 of `gradient` are this rank's share and final. Adjacent pieces are
  /// merged. Collective over `comm`: every rank passes the same pieces in the same order. `gradient` must not
  /// move before `finish`.
  void add(std::span<double> gradient, Index first, Index count);
  /// Completes the sums: all pieces since the last `finish` now hold the sum, on every rank. Collective.
  void finish();

 private:
  void send();
  MPI_Comm comm_;
  int ranks_ = 1;
  Index bucket_;
  double* data_ = nullptr;
  Index first_ = 0, count_ = 0;  // the entries that wait to be sent
  std::vector<MPI_Request> requests_;
};

/// The terms that a training minimises beside the loss, and how it steps.
struct TrainerSettings {
  OptimiserSettings optimiser;
  Schedule schedule;
  TrainedCoefficients coefficients;
  double clip = 0;            ///< largest norm of the gradient; 0: none
  double smoothness = 0;      ///< strength of the penalty on the depth-derivative of the weights
  CoefficientLimits largest;  ///< of token diffusion and transport
  Index bucket = 1 << 16;     ///< entries of the gradient that are sent together
};

/// Says if a record of the optimiser holds the preconditioner.
enum class Preconditioner { left_out, kept };

/// Results of a step; the same on all ranks.
struct StepReport {
  long step = 0;    ///< number of the step, from 0
  double loss = 0;  ///< task loss, mean over the global batch
  double depth_loss = 0, penalty = 0;
  double accuracy = 0;       ///< share of the batch that is classified correctly, before the step
  double gradient_norm = 0;  ///< Euclidean norm, before clipping
  double rate = 0;
};

/// Stochastic gradient descent for one model. Every member is collective over all ranks.
class Trainer {
 public:
  /// A training in stages: `parameters` are those of this rank's stage, `model` is made of them (both
  /// borrowed), and `pipeline`, whose slots march through that model, is the stage's part of the pipeline.
  /// Throws BadInput (agreed).
  Trainer(const TrainingRanks& ranks, Parameters& parameters, DepthModel& model, Pipeline pipeline,
          const TrainerSettings& settings);

  /// Takes one step on this replica's share of a global batch. Throws NumericalFailure (agreed) if loss or
  /// gradient is not finite or the march of some replica fails; the parameters are then those before the
  /// step.
  StepReport step(const Batch& batch) { return step(batch, pipeline_); }
  /// The same through another pipeline of these stages, such as one on other depth cells.
  StepReport step(const Batch& batch, Pipeline& pipeline);
  long steps() const { return optimiser_.state().steps; }
  /// Snapshot of the optimiser, with the preconditioner (on rank 0) only for Preconditioner::kept.
  OptimiserRecord optimiser(Preconditioner which) const;
  /// Number of entries of the parameter vector of the whole model that are trained.
  Index trained() const { return trained_; }
  const StageParameters& stages() const { return stages_; }

  /// Mean task loss and accuracy of `samples`, which are distributed over the token lines of the ranks of a
  /// stage, as many at a time as a micro-batch has.
  Evaluation evaluate(const SampleSet& samples) { return evaluate(samples, pipeline_); }
  /// The same through another pipeline of these stages, whose batches have as many samples as those of
  /// `samples`.
  Evaluation evaluate(const SampleSet& samples, Pipeline& pipeline);

  /// Writes, or reads, everything that the next step depends on.
  void save(io::CheckpointWriter& checkpoint) const;
  void load(const io::CheckpointReader& checkpoint);

 private:
  /// True on the ranks whose loss enters the global sum: last stage, first rank of its token line.
  bool contributes_loss() const;
  /// Euclidean norm of the gradient of the whole model.
  double gradient_norm() const;
  TrainingRanks ranks_;
  Parameters& parameters_;
  DepthModel& model_;
  Pipeline pipeline_;
  TrainerSettings settings_;
  StageParameters stages_;
  Trainable trainable_;
  Index trained_;
  Optimiser optimiser_;
  GradientSum sum_;
  std::vector<double> raw_, gradient_;
};

}  // namespace fluxformer
