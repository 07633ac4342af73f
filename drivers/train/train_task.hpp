#pragma once

// What a training learns, classes or masked words, the model that it starts from, and its teacher.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "drivers/train/train_options.hpp"
#include "model/initialise.hpp"
#include "model/model_file.hpp"
#include "model/sample_set.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {

/// Shares of the masked test words that are right by guesses which only count words.
struct CountedGuesses {
  /// Guesses the most frequent word every time.
  double unigram = 0;
  /// Guesses the word that most often follows the one before, if that is visible; else the unigram.
  double bigram = 0;
};

/// Masking of a training: the batches mask other words each time; samples for evaluations stay masked as they
/// are, whatever the seed.
class MaskedTraining {
 public:
  /// Masks this share of the words of `train` (borrowed), of which `members` are the samples to be trained on.
  /// Throws BadInput if the tokens are not words, or if the samples have none that can be masked.
  MaskedTraining(double share, std::uint64_t seed, const data::Dataset& train,
                 const std::vector<std::size_t>& members);

  const MaskVocabulary& vocabulary() const { return masking_.vocabulary(); }
  /// Masks the batch of a step.
  void mask(Batch& batch) const;
  /// Masked samples for an evaluation. Throws BadInput if they have no words that can be masked.
  SampleSet masked(const SampleSet& samples) const;
  /// Shares of guesses fitted to the training samples, on these test samples. Collective over their ranks.
  CountedGuesses counted(const SampleSet& test) const;

 private:
  const data::Dataset& train_;
  std::vector<std::size_t> members_;
  WordMasking masking_;
  double mean_count_;
  std::uint64_t seed_;
};

/// Words of the model's table: those of the data, and the mask if it is none of them. Empty where words have
/// no names.
std::vector<std::string> words_of_model(const data::Dataset& data,
                                        const std::optional<MaskedTraining>& masked);

/// Input shape and heads that the data and the task require of the model. Throws BadInput.
InputShape model_input(const TrainPlan& plan, const data::Dataset& data,
                       const std::optional<MaskedTraining>& masked);

/// Reads the teacher and adapts it to these data, whose input the model has; std::nullopt without a teacher.
/// Collective; throws BadInput.
std::optional<Parameters> read_teacher(const TrainPlan& plan, const data::Dataset& data,
                                       const std::optional<MaskedTraining>& masked, const InputShape& input,
                                       MPI_Comm comm);

/// Makes parameters as make_parameters does, with the heads that the task needs. From a model file what fits
/// is kept; otherwise the teacher's embedding, final norm and heads are copied if the plan says so.
/// Collective; throws BadInput.
AdaptedModel starting_model(const TrainPlan& plan, const InputShape& input,
                            const std::optional<Parameters>& teacher, const ShareOf& share, MPI_Comm comm);

}  // namespace fluxformer
