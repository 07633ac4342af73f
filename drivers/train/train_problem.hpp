#pragma once

// The problem of `train`: data, model, march through depth and trainer, made by its plan. A rank has the part
// of the model that its stage of depth needs (docs/user-guide.md).

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/packed_texts.hpp"
#include "drivers/common/rank_layout.hpp"
#include "drivers/train/train_checks.hpp"
#include "drivers/train/train_task.hpp"
#include "training/trainer.hpp"

namespace fluxformer {

/// Indices of the samples of the two splits: those to train on, those of them set apart for validation, and
/// those to test on.
struct Members {
  std::vector<std::size_t> training, validation, testing;
};

/// Draws as many samples of both splits as the plan says, by its seed. `outputs` are those of the model in
/// model.file; 0: none. Not collective; throws BadInput if there are too few, and for labels that a classifier
/// cannot learn from.
Members draw_members(const TrainPlan& plan, const data::Dataset& train, const data::Dataset& test,
                     int outputs);

/// The texts that were joined to the samples of a training.
struct JoinedTexts {
  Members texts;      ///< their numbers, in the data that were opened
  data::EndWord end;  ///< behind each of them
};

/// Number of samples whose tokens are those of a training sample, too.
struct Copies {
  std::size_t validation = 0;
  std::size_t testing = 0;
};

/// Cells of all stages. `input` decides the cost of the ends of the depth: the heads of a model file may be
/// replaced. Throws BadInput.
std::vector<DepthRange> cells_of_stages(const TrainPlan& plan, const ModelSpec& spec,
                                        const InputShape& input);
/// Parameters that stage `stage` (from 0) holds; all of them without stages. `plan` is borrowed.
ShareOf share_of_stage(const TrainPlan& plan, const InputShape& input, int stage);
/// The pipeline of the plan for a group with `samples` samples of a batch. Throws BadInput for more parts than
/// samples.
PipelineSettings pipeline_settings(const TrainPlan& plan, int samples);
/// Makes the march of the plan through these cells of `model` (borrowed). Throws BadInput.
std::unique_ptr<DepthMarch> make_march(DepthModel& model, const EquationSpec& equation,
                                       const GradientPlan& plan, DepthRange cells);

/// Everything that `train` needs to take its first step; every part that is not said to be optional is there
/// once the problem is made. Later parts borrow earlier ones.
class TrainProblem {
 public:
  /// Builds the problem. Collective over `comm`; throws BadInput (agreed).
  TrainProblem(const TrainPlan& plan, MPI_Comm comm);
  TrainProblem(const TrainProblem&) = delete;
  TrainProblem& operator=(const TrainProblem&) = delete;
  /// Description in a few lines, for --validate and the log.
  std::string describe() const;
  long total_steps() const { return batches->per_epoch() * plan.epochs; }
  /// Takes the next step, on the depth cells that are drawn for it. Collective; throws as Trainer::step.
  StepReport step();
  /// The cells of this rank's stage on so many depth cells in all. Throws BadInput if a stage would end
  /// within one of them.
  DepthRange stage_on(int all_cells) const;
  /// Chosen samples of `train` or `test` on the ranks of the training, in batches of the training's size;
  /// with the words to guess where words are guessed.
  SampleSet samples(const data::Dataset& data, const std::vector<std::size_t>& chosen) const;

  const TrainPlan plan;
  const MPI_Comm comm;
  const RankLayout ranks;
  std::unique_ptr<data::Dataset> train, test;
  Members members;                               ///< those to test on have labels, unless words are guessed
  std::optional<JoinedTexts> joined;             ///< optional: samples are lines of joined texts
  std::unique_ptr<WordTraining> words;           ///< optional: guesses words
  std::optional<Parameters> teacher_parameters;  ///< optional: distillation
  std::optional<Parameters> parameters;          ///< those of this rank's stage, which are trained
  std::string adapted;                           ///< what became of the arrays of a model file (AdaptedModel)
  std::optional<TokenLine> line;
  DepthCells depth;
  std::vector<DepthRange> stage_cells;  ///< cells of all stages
  DepthRange cells;                     ///< cells of this rank's stage
  std::optional<Batches> batches;
  PipelineSettings through_stages;
  std::optional<Dropout> dropout;  ///< optional: a rate above 0
  SlabContext slab;
  std::unique_ptr<DepthModel> model;
  std::unique_ptr<Teacher> teacher;                          ///< optional: distillation
  std::vector<std::unique_ptr<Distillation>> distillations;  ///< one for each mesh; optional: distillation
  std::optional<Trainer> trainer;                            ///< on `depth`
  std::vector<std::unique_ptr<Pipeline>> drawn;  ///< one for each of plan.cells; null: that of the trainer
  std::optional<double> baseline;  ///< text: test accuracy of multinomial naive Bayes on the same samples
  Copies copies;                   ///< of token files only
  std::optional<CountedGuesses> guesses;  ///< of words by counting; present where words are guessed
  /// Bits per byte for a loss of 1 nat per word; NaN unless next words are guessed whose bytes are known.
  double validation_bits = std::numeric_limits<double>::quiet_NaN();
  double test_bits = std::numeric_limits<double>::quiet_NaN();

 private:
  // The steps of the constructor, in its order.
  void open_samples();
  /// Makes `train`, `test` and `members` lines of joined texts; `positions` are those of the model in model.file,
  /// 0: any number.
  void join_texts(int positions);
  void read_start();
  void make_model();
  void make_trainer();
  std::unique_ptr<Pipeline> pipeline_on(const DepthCells& other);
  /// This rank's share of the batch of a step.
  Batch batch(long step);
  void measure_baselines();
  std::string describe_samples() const;
};

}  // namespace fluxformer
