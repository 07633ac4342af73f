#pragma once

// Samples for models that guess words, in studies of models.

#include <string>

#include "base/settings.hpp"
#include "drivers/compare/compare_models.hpp"
#include "drivers/compare/compare_problem.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// A key whose value is that of the training of a model unless it is given: its name, its value, and whether it
/// was given.
template <class Value>
struct KeyOfTraining {
  std::string name = {};
  Value value = {};
  bool given = false;
  /// The value as it was given or, if it was not, as in the training of a model. Throws BadInput for a
  /// number in the model's file that is none.
  Value of_model(const ModelOrigin& origin) const;
};
extern template struct KeyOfTraining<double>;
extern template struct KeyOfTraining<std::string>;

/// Declares train.masked; `masked_share` is its value: the share of the words of a text that are to be guessed.
void declare_masked_words(Options& options);
KeyOfTraining<double> masked_share(const Settings& settings);
/// The settings that a run stores: a share that was not given is left to the training of each model.
Settings with_masked_share_of_models(Settings settings);

/// True if the words that a model of words guesses are the next ones: those of its training or, of a model that was
/// not trained here, those that its attention does not see.
bool guesses_next_words(const ModelSpec& spec, const ModelOrigin& origin);

/// These samples as they are for a model with classes. For one that guesses words with the words that it has to
/// guess, as for an evaluation: the next ones, or as many masked as in its training, unless `share` was given.
/// Throws BadInput if there are none.
SampleSet with_targets(const SampleSet& samples, const KeyOfTraining<double>& share,
                       const ComparedModel& model, const std::string& name);
/// Throws BadInput for a share that was given and that no model needs, and for models that guess words of samples
/// without any.
void require_targets(const CompareProblem& problem, const KeyOfTraining<double>& share);
/// require_targets, and classes of samples for models of classes. Throws BadInput that names the `purpose`.
void require_answers(const CompareProblem& problem, const KeyOfTraining<double>& share,
                     const std::string& purpose);

}  // namespace fluxformer
