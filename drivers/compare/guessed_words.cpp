#include "drivers/compare/guessed_words.hpp"

#include <type_traits>

#include "base/error.hpp"
#include "base/option.hpp"
#include "model/tasks/word_targets.hpp"

namespace fluxformer {

template <class Value>
Value KeyOfTraining<Value>::of_model(const ModelOrigin& origin) const {
  if (given || origin.value(name).empty()) return value;
  if constexpr (std::is_same_v<Value, double>)
    return origin.number(name);
  else
    return origin.value(name);
}

template struct KeyOfTraining<double>;
template struct KeyOfTraining<std::string>;

void declare_masked_words(Options& options) {
  options.declare("train.masked", 0.15,
                  "models of masked words: fraction of the words of a text that are to be guessed; if not "
                  "given, that of the training of the model",
                  {.minimum = 0, .maximum = 1, .above_minimum = true});
}

KeyOfTraining<double> masked_share(const Settings& settings) {
  const char* const key = "train.masked";
  return {key, settings.real(key), settings.given(key)};
}

Settings with_masked_share_of_models(Settings settings) {
  settings.leave_to_file("train.masked");
  return settings;
}

bool guesses_next_words(const ModelSpec& spec, const ModelOrigin& origin) {
  return origin.trained() ? origin.value("train.objective") == "causal" : spec.causal;
}

SampleSet with_targets(const SampleSet& samples, const KeyOfTraining<double>& share,
                       const ComparedModel& model, const std::string& name) {
  if (!model.parameters.spec.guesses_words()) return samples;
  const auto key = "models." + name + " = " + model.file;
  if (guesses_next_words(model.parameters.spec, model.origin)) return next_words_for_evaluation(samples, key);
  // `train` makes the mask the last word of data whose words have no names.
  const auto vocabulary = samples.data().words().empty() && model.origin.trained()
                              ? mask_vocabulary_of_numbers(samples.data())
                              : mask_vocabulary(samples.data());
  if (vocabulary.added)
    throw BadInput(key +
                   ": guesses masked words, and no word of it is called <mask> or [MASK]; `import` takes "
                   "the names of the words with --words");
  return masked_for_evaluation(samples, share.of_model(model.origin), vocabulary, key);
}

void require_targets(const CompareProblem& problem, const KeyOfTraining<double>& share) {
  const auto& models = problem.models();
  bool any = false;
  for (std::size_t seed = 0; seed < models.seeds().size(); ++seed)
    for (const auto& name : models.names()) {
      const auto& model = models.at(seed, name);
      if (!model.parameters.spec.guesses_words()) continue;
      any = any || !guesses_next_words(model.parameters.spec, model.origin);
      with_targets(problem.input_of(name).samples(), share, model, name);
    }
  if (share.given && !any)
    throw BadInput(share.name + " = " + value_text(share.value) +
                   ": none of the models guesses masked words; leave the key out");
}

void require_answers(const CompareProblem& problem, const KeyOfTraining<double>& share,
                     const std::string& purpose) {
  require_targets(problem, share);
  const auto& models = problem.models();
  for (const auto& name : models.names())
    if (!models.at(0, name).parameters.spec.guesses_words()) problem.require_classes(purpose);
}

}  // namespace fluxformer
