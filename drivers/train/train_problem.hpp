#pragma once

// The problem of `train`: data, model, march through depth and trainer, built from the settings. A rank has
// the part of the model that its stage of depth needs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "drivers/common/rank_layout.hpp"
#include "drivers/train/starting_model.hpp"
#include "drivers/train/train_checks.hpp"
#include "training/trainer.hpp"

namespace fluxformer {

/// Indices of the samples of the two splits: those to train on, those of them set apart for validation, and
/// those to test on.
struct Members {
  std::vector<std::size_t> training, validation, testing;
};

/// Indices of the samples of `test` that a classifier is tested on: those with a label, as many of them as
/// train.test_samples says, drawn by run.seed. Not collective; throws BadInput if there are too few.
std::vector<std::size_t> tested_members(const Settings& settings, const data::Dataset& test);

/// Number of samples whose tokens are those of a training sample, too.
struct Copies {
  std::size_t validation = 0;
  std::size_t testing = 0;
};

/// A march and an evaluator with room for the activations of one micro-batch.
struct Slot {
  std::unique_ptr<DepthMarch> march;
  std::unique_ptr<GradientEvaluator> evaluator;
};

/// Everything that `train` needs to take its first step. Later members borrow earlier ones.
class TrainProblem {
 public:
  /// Builds the problem. Collective over `comm`; throws BadInput (agreed).
  TrainProblem(const Settings& settings, MPI_Comm comm);
  TrainProblem(const TrainProblem&) = delete;
  TrainProblem& operator=(const TrainProblem&) = delete;
  /// Description in a few lines, for --validate and the log.
  std::string describe() const;
  long total_steps() const { return batches.per_epoch() * epochs; }
  /// This rank's share of the batch of a step.
  Batch batch(long step);
  /// Chosen samples of `train` or `test` on the ranks of the training, in batches of the training's size;
  /// with masked words where train.objective = masked.
  SampleSet samples(const data::Dataset& data, const std::vector<std::size_t>& chosen) const;

  const MPI_Comm comm;
  const long epochs;
  RankLayout ranks;
  std::unique_ptr<data::Dataset> train, test;
  Members members;                               ///< those to test on have labels, unless words are guessed
  std::optional<MaskedTraining> masked;          ///< present if train.objective = masked
  std::optional<Parameters> teacher_parameters;  ///< absent without distillation
  /// The model before the training. `parameters` are those that are trained, of this rank's stage.
  AdaptedModel start;
  Parameters& parameters;
  TokenLine line;
  const DepthCells depth;
  const std::vector<DepthRange> stage_cells;  ///< cells of all stages
  const DepthRange cells;                     ///< cells of this rank's stage
  Batches batches;
  const PipelineSettings through_stages;
  Dropout dropout;
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  std::unique_ptr<Teacher> teacher;            ///< null without distillation
  std::unique_ptr<Distillation> distillation;  ///< null without distillation
  std::vector<Slot> slots;
  Trainer trainer;
  std::optional<double> baseline;  ///< text: test accuracy of multinomial naive Bayes on the same samples
  Copies copies;                   ///< of token files only
  std::optional<CountedGuesses> guesses;  ///< shares of counting guesses; present for masked words

 private:
  std::unique_ptr<Teacher> make_teacher(const Settings& settings) const;
  std::unique_ptr<Distillation> make_distillation(const Settings& settings) const;
  KeptStates kept_states() const;
  std::vector<Slot> make_slots(const Settings& settings);
  Pipeline make_pipeline() const;
  void measure_baselines();
  std::string describe_samples() const;
};

}  // namespace fluxformer
