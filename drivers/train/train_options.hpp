#pragma once

// The keys of `train`, and what they say.

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "model/distillation.hpp"
#include "model/tasks/task.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "training/trainer.hpp"

namespace fluxformer {

/// Declares the keys of `train`: model and data, train, distill, adjoint, output, checkpoint and run.
void declare_train(Options& options);
/// Declares the keys of the objective and of the variables it is minimised over: loss, penalty, trained
/// coefficients.
void declare_minimised(Options& options);
/// Declares the keys that say how ranks share a step.
void declare_sharing(Options& options);
/// Declares the keys that plan_of_training reads, without those of model and data, and without run.seed.
void declare_training(Options& options);

/// The samples that a training takes.
struct SamplesPlan {
  DataPlan data;
  int tokens_x = 0, tokens_y = 0;  ///< the tokens asked for, which must be those of the data; 0: any
  long training = 0, testing = 0;  ///< numbers of samples; 0: all
  double validation = 0;           ///< share of the training samples that is set apart
  int batch = 1;                   ///< samples of a step, over all ranks
  double augment = 0, noise = 0;   ///< of the data, in each step anew
  bool packed = false;             ///< texts are joined and cut into lines; else a sample is a text
  int stride = 0;                  ///< packed: tokens between samples of an evaluation; 0: as in training
};

/// The objective that a training minimises.
struct ObjectivePlan {
  /// The words that the model learns to guess; none: it learns the classes of samples.
  enum class Words { none, masked, next };
  Loss loss;
  Words words = Words::none;
  double masked_share = 0;       ///< share of the words of a text that are masked
  bool own_word_matrix = false;  ///< of a new word head
  double dropout = 0;
  std::string teacher;  ///< model file; empty: no distillation
  Distillation::Weights distillation;
  bool copy_teacher = true;  ///< start with the teacher's embedding, final norm and heads
  /// True if words are to be guessed, not the classes of samples.
  bool guesses_words() const { return words != Words::none; }
};

/// How the gradient goes through depth.
struct GradientPlan {
  bool adjoint = false;      ///< PETSc's discrete adjoint; else back-propagation
  AdjointSettings settings;  ///< of the adjoint; `every` is decided by the cells if `segments`
  bool segments = false;     ///< the state is kept every `segment` cells
  int segment = 0;           ///< 0: as many as need the least memory
  /// True if each step through depth solves a system.
  bool implicit() const { return adjoint && is_implicit(settings); }
};

/// A training.
struct TrainPlan {
  ModelPlan model;
  EquationSpec equation;  ///< to be completed by equation_for
  Precision precision = Precision::float64;
  SamplesPlan samples;
  ObjectivePlan objective;
  GradientPlan gradient;
  std::uint64_t seed = 1;
  int ranks_token = 1, ranks_depth = 1;
  bool periodic = false;
  PipelineSettings pipeline;  ///< 0 micro-batches: as the stages decide
  double memory = 0;          ///< bytes that a rank may use; 0: what the machine has
  long epochs = 1;
  std::vector<int> cells;  ///< numbers of depth cells that each step draws from; empty: those of `equation`
  /// The optimiser and the schedule, without numbers of steps, trained coefficients and the limits of
  /// kappa and nu, which data and model decide.
  TrainerSettings trainer;
  double warm_up = 0;  ///< share of all steps
  enum class Coefficients { of_a_pde, yes, no } coefficients = Coefficients::of_a_pde;
};
/// The plan by the settings. Throws BadInput for a precision that this processor does not have, and for what
/// a march through depth cannot do: diffusion in depth, schemes in depth, implicit methods in bfloat16. Not
/// collective.
TrainPlan plan_of_training(const Settings& settings);

/// The files that `train` writes, and the steps after which it does.
struct TrainOutput {
  std::string file;
  long snapshots = 0;           ///< epochs between weight snapshots; 0: none
  bool preconditioner = false;  ///< kept in snapshots
  long checkpoints = 0;         ///< steps between checkpoints; 0: none
  bool every_epoch = true;      ///< a checkpoint at the end of each epoch
  bool depth_report = true;     ///< the loss on finer depth cells, at the end
};
/// The output by the settings of `train`. Not collective.
TrainOutput output_of_train(const Settings& settings);

}  // namespace fluxformer
