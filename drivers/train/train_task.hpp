#pragma once

// What a training learns, classes or words, the model that it starts from, and its teacher.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "drivers/train/train_options.hpp"
#include "model/initialise.hpp"
#include "model/model_file.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// Success on the test words of guesses that only count words, by their contexts of 0, 1, ... words before.
struct CountedGuesses {
  std::vector<double> accuracy;                 ///< shares that are right
  std::vector<double> kneser_ney, witten_bell;  ///< perplexities; empty for masked words
  /// In words, of the test words that are "masked" or "next" ones. `bits` per byte for a loss of 1 nat per word;
  /// NaN: not known, and not said.
  std::string text(const std::string& which, double bits) const;
};

/// The words that a training learns to guess, and what that needs of data and model.
class WordTraining {
 public:
  virtual ~WordTraining() = default;
  /// Number of words of the model, and whether the last one is none of the data.
  virtual int words() const = 0;
  virtual bool adds_mask() const = 0;
  /// How messages name the words: "masked" or "next".
  virtual const char* which() const = 0;
  /// Chooses the words of the batch of a step.
  virtual void choose(Batch& batch) const = 0;
  /// Samples for an evaluation, the same whatever the seed. Throws BadInput if they have no words to guess.
  virtual SampleSet for_evaluation(const SampleSet& samples) const = 0;
  /// The mean bytes of text that a word to guess of these samples stands for; NaN if it is not known.
  virtual double mean_bytes(const data::Dataset& data, const std::vector<std::size_t>& members) const = 0;
  /// Guesses fitted to the training samples, on these test samples. Collective over their ranks.
  virtual CountedGuesses counted(const SampleSet& test) const = 0;
};

/// The words of the objective of `plan`; null if it learns classes. `train` is borrowed, `members` are its
/// samples to be trained on. Throws BadInput if the tokens are not words, or the samples have none to guess.
std::unique_ptr<WordTraining> make_word_training(const ObjectivePlan& plan, std::uint64_t seed,
                                                 const data::Dataset& train,
                                                 const std::vector<std::size_t>& members);

/// Words of the model's table: those of the data, and the mask if it is none of them. Empty where words have
/// no names.
std::vector<std::string> words_of_model(const data::Dataset& data, const WordTraining* words);

/// Input shape and heads that the data and the task require of the model. Throws BadInput.
InputShape model_input(const TrainPlan& plan, const data::Dataset& data, const WordTraining* words);

/// Reads the teacher and adapts it to these data, whose input the model has; std::nullopt without a teacher.
/// Collective; throws BadInput.
std::optional<Parameters> read_teacher(const TrainPlan& plan, const data::Dataset& data,
                                       const WordTraining* words, const InputShape& input, MPI_Comm comm);

/// Makes parameters as make_parameters does, with the heads that the task needs. From a model file what fits
/// is kept; otherwise the teacher's embedding, final norm and heads are copied if the plan says so.
/// Collective; throws BadInput.
AdaptedModel starting_model(const TrainPlan& plan, const InputShape& input,
                            const std::optional<Parameters>& teacher, const ShareOf& share, MPI_Comm comm);

}  // namespace fluxformer
