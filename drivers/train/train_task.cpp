#include "drivers/train/train_task.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/text/baselines.hpp"
#include "data/text/ngrams.hpp"
#include "data/text/vocabulary.hpp"
#include "data/text/words_of.hpp"
#include "drivers/common/model_options.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "model/tasks/word_targets.hpp"

namespace fluxformer {

std::string CountedGuesses::text(const std::string& which, double bits) const {
  std::ostringstream text;
  text << "of the " << which << " test words the most frequent word is " << 100 * accuracy[0]
       << " %, the bigram guess " << 100 * accuracy[1] << " %";
  for (std::size_t k = 2; k < accuracy.size(); ++k)
    text << (k == 2 ? ", of " : ", ") << k + 1 << "-grams " << 100 * accuracy[k] << " %";
  if (kneser_ney.empty()) return text.str();
  const auto list = [&](const char* name, const std::vector<double>& perplexities) {
    text << "\nperplexity of 1-grams, 2-grams, ... (" << name << "):";
    for (const double value : perplexities) text << ' ' << value;
    if (!std::isfinite(bits)) return;
    text << "; bits per byte:";
    for (const double value : perplexities) text << ' ' << bits * std::log(value);
  };
  list("Kneser-Ney", kneser_ney);
  list("Witten-Bell", witten_bell);
  return text.str();
}

namespace {

/// Batches mask other words each time; samples for evaluations stay masked as they are.
class MaskedTraining final : public WordTraining {
 public:
  MaskedTraining(double share, std::uint64_t seed, const data::Dataset& train,
                 const std::vector<std::size_t>& members)
      : train_(train),
        members_(members),
        masking_(train, share),
        mean_count_(masking_.mean_count(members)),
        seed_(seed) {
    if (mean_count_ == 0)
      throw BadInput("train.objective = masked: the training samples have no words that can be masked");
  }
  int words() const override { return masking_.vocabulary().size; }
  bool adds_mask() const override { return masking_.vocabulary().added; }
  const char* which() const override { return "masked"; }
  void choose(Batch& batch) const override {
    masking_.apply(batch, RandomStream(seed_, "masked words"), mean_count_);
  }
  SampleSet for_evaluation(const SampleSet& samples) const override {
    return masked_for_evaluation(samples, masking_.share(), mask_vocabulary(samples.data()),
                                 "train.objective = masked");
  }
  /// A masked word is guessed from the text on both sides: such guesses do not add up to a text.
  double mean_bytes(const data::Dataset&, const std::vector<std::size_t>&) const override {
    return std::numeric_limits<double>::quiet_NaN();
  }
  CountedGuesses counted(const SampleSet& test) const override;

 private:
  const data::Dataset& train_;
  std::vector<std::size_t> members_;
  WordMasking masking_;
  double mean_count_;
  std::uint64_t seed_;
};

// The most frequent word every time; the word that most often follows the one before, if that is visible.
CountedGuesses MaskedTraining::counted(const SampleSet& test) const {
  const data::WordGuess guess(train_, members_, masking_.ordinary());
  const auto numbers = static_cast<std::size_t>(train_.features());
  std::vector<double> right(2, 0.0);
  for_evaluation(test).for_batches([&](const Batch& batch) {
    if (test.line().rank() != 0) return;  // all ranks of a line see the same batch
    const std::size_t each = batch.input.size() / batch.label.size();
    for (const auto& word : batch.targets) {
      const auto at =
          static_cast<std::size_t>(word.sample) * each + static_cast<std::size_t>(word.token) * numbers;
      const int before =
          word.token > 0 ? static_cast<int>(batch.input[at - numbers]) : masking_.vocabulary().mask;
      if (word.word == guess.likeliest()) right[0] += word.weight;
      if (word.word == guess.after(before)) right[1] += word.weight;
    }
  });
  sum_over_ranks(right, test.comm());
  return {.accuracy = right, .kneser_ney = {}, .witten_bell = {}};
}

/// Every word but the first of a text is guessed.
class NextWordTraining final : public WordTraining {
 public:
  NextWordTraining(const data::Dataset& train, const std::vector<std::size_t>& members)
      : train_(train), members_(members), next_(train), mean_count_(next_.mean_count(members)) {
    if (mean_count_ == 0)
      throw BadInput("train.objective = causal: the training samples have no words behind their first ones");
  }
  int words() const override { return train_.vocabulary(); }
  bool adds_mask() const override { return false; }
  const char* which() const override { return "next"; }
  void choose(Batch& batch) const override { next_.apply(batch, mean_count_); }
  SampleSet for_evaluation(const SampleSet& samples) const override {
    return next_words_for_evaluation(samples, "train.objective = causal");
  }
  double mean_bytes(const data::Dataset& data, const std::vector<std::size_t>& members) const override {
    return NextWords(data).mean_bytes(members);
  }
  CountedGuesses counted(const SampleSet& test) const override;

 private:
  const data::Dataset& train_;
  std::vector<std::size_t> members_;
  NextWords next_;
  double mean_count_;
};

// The same words as in an evaluation, each behind those of its text: a line of joined texts cuts no context.
CountedGuesses NextWordTraining::counted(const SampleSet& test) const {
  // Of bytes one more: there are few different ones.
  const int orders = next_.mean_bytes(members_) <= 1 ? 6 : 5;
  const data::NGrams counts(train_, members_, next_.possible(), orders);
  for_evaluation(test);  // refuses samples without next words
  const auto texts = data::next_words_of(test.data(), test.members(), next_.possible());
  const auto share =
      data::balanced_shard(texts.targets.size(), mpi::rank(test.comm()), mpi::size(test.comm()));
  const double weight = 1.0 / static_cast<double>(texts.targets.size());
  // [right, -log p of Kneser-Ney, of Witten-Bell][order - 1]
  std::vector<double> sums(3 * orders, 0.0);
  for (std::size_t k = share.first; k < share.first + share.count; ++k) {
    const auto context = texts.context(texts.targets[k]);
    const auto word = texts.words[texts.targets[k]];
    const auto guesses = counts.guesses(context, word);
    for (int j = 0; j < orders; ++j) {
      if (guesses[j].likeliest == word) sums[j] += weight;
      sums[orders + j] -= weight * std::log(guesses[j].kneser_ney);
      sums[2 * orders + j] -= weight * std::log(guesses[j].witten_bell);
    }
  }
  sum_over_ranks(sums, test.comm());
  const auto part = [&](int k) {
    return std::vector<double>(sums.begin() + k * orders, sums.begin() + (k + 1) * orders);
  };
  const auto perplexities = [&](int k) {
    auto values = part(k);
    for (double& value : values) value = std::exp(value);
    return values;
  };
  return {part(0), perplexities(1), perplexities(2)};
}

}  // namespace

std::unique_ptr<WordTraining> make_word_training(const ObjectivePlan& plan, std::uint64_t seed,
                                                 const data::Dataset& train,
                                                 const std::vector<std::size_t>& members) {
  if (plan.words == ObjectivePlan::Words::none) return nullptr;
  const bool masked = plan.words == ObjectivePlan::Words::masked;
  if (train.vocabulary() == 0)
    throw BadInput(std::string("train.objective = ") + (masked ? "masked" : "causal") +
                   ": the tokens of data.set = " + train.name() + " are not words");
  if (masked) return std::make_unique<MaskedTraining>(plan.masked_share, seed, train, members);
  return std::make_unique<NextWordTraining>(train, members);
}

InputShape model_input(const TrainPlan& plan, const data::Dataset& data, const WordTraining* words) {
  auto shape = shape_of(data);
  if (words == nullptr) return shape;
  const auto& file = plan.model.file;
  if (words->adds_mask() && !file.empty())
    throw BadInput("train.objective = masked: no word of the model in model.file = " + file +
                   " is called <mask> or [MASK]");
  shape.vocabulary = words->words();
  shape.classes = 0;
  shape.word_head = true;
  shape.own_word_matrix = plan.objective.own_word_matrix;
  return shape;
}

std::vector<std::string> words_of_model(const data::Dataset& data, const WordTraining* words) {
  auto names = data.words();
  if (!names.empty() && words != nullptr && words->adds_mask())
    names.emplace_back(data::Vocabulary::mask_word);
  return names;
}

std::optional<Parameters> read_teacher(const TrainPlan& plan, const data::Dataset& data,
                                       const WordTraining* words, const InputShape& input, MPI_Comm comm) {
  const auto& file = plan.objective.teacher;
  const auto& weights = plan.objective.distillation;
  if (file.empty()) return {};
  if (weights.hidden == 0 && weights.attention == 0)
    throw BadInput("distill.teacher: needs distill.hidden or distill.attention > 0");
  const io::ArchiveReader archive(comm, file, "distill.teacher = ");
  auto teacher = read_model(archive);
  const auto& spec = teacher.spec;
  if (spec.features != input.features || spec.vocabulary != input.vocabulary ||
      spec.segments != input.segments ||
      (spec.tokens > 0 && spec.tokens != input.tokens &&
       (spec.tokens < input.tokens || !plan.model.first_positions)))
    throw BadInput("distill.teacher = " + file + ": was trained on tokens other than those of data.set");
  require_length(spec, input.tokens, "data.tokens", "the teacher in " + file, comm);
  if (archive.has(model_file::embedding_vocabulary) &&
      archive.words(model_file::embedding_vocabulary) != words_of_model(data, words))
    throw BadInput("distill.teacher = " + file +
                   ": its vocabulary differs from that of data.set; data.vocabulary, data.least_count and "
                   "the parts of the texts that are kept must be the same");
  return teacher;
}

AdaptedModel starting_model(const TrainPlan& plan, const InputShape& input,
                            const std::optional<Parameters>& teacher, const ShareOf& share, MPI_Comm comm) {
  auto made = make_parameters(plan.model, input, comm, share);
  if (!plan.model.file.empty())
    return with_heads(made, input.classes, {.present = input.word_head, .own_matrix = input.own_word_matrix},
                      plan.model.seed);
  AdaptedModel start{std::move(made), ""};
  if (!teacher || !plan.objective.copy_teacher) return start;
  for (const auto& view : start.parameters.layout.views()) {
    const bool around = view.group == "embedding" || view.group == "final_norm" || view.group == "head" ||
                        view.group == "word_head";
    if (!around || !teacher->layout.has(view.path()) || teacher->layout.at(view.path()).shape != view.shape)
      continue;
    std::ranges::copy(teacher->view(view.path()), start.parameters.view(view.path()).begin());
  }
  return start;
}

}  // namespace fluxformer
