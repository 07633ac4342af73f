#include "drivers/train/train_task.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/text/baselines.hpp"
#include "data/text/vocabulary.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"

namespace fluxformer {

MaskedTraining::MaskedTraining(double share, std::uint64_t seed, const data::Dataset& train,
                               const std::vector<std::size_t>& members)
    : train_(train),
      members_(members),
      masking_(train, share),
      mean_count_(train.vocabulary() > 0 ? masking_.mean_count(members) : 0),
      seed_(seed) {
  if (train.vocabulary() == 0)
    throw BadInput("train.objective = masked: the tokens of data.set = " + train.name() + " are not words");
  if (mean_count_ == 0)
    throw BadInput("train.objective = masked: the training samples have no words that can be masked");
}

void MaskedTraining::mask(Batch& batch) const {
  masking_.apply(batch, RandomStream(seed_, "masked words"), mean_count_);
}

SampleSet MaskedTraining::masked(const SampleSet& samples) const {
  return masked_for_evaluation(samples, masking_.share(), mask_vocabulary(samples.data()),
                               "train.objective = masked");
}

CountedGuesses MaskedTraining::counted(const SampleSet& test) const {
  const data::WordGuess guess(train_, members_, masking_.ordinary());
  const auto numbers = static_cast<std::size_t>(train_.features());
  std::array<double, 2> right{0, 0};
  masked(test).for_batches([&](const Batch& batch) {
    if (test.line().rank() != 0) return;  // all ranks of a line see the same batch
    const std::size_t each = batch.input.size() / batch.label.size();
    for (const auto& word : batch.masked) {
      const auto at =
          static_cast<std::size_t>(word.sample) * each + static_cast<std::size_t>(word.token) * numbers;
      const int before = word.token > 0 ? static_cast<int>(batch.input[at - numbers]) : vocabulary().mask;
      if (word.word == guess.likeliest()) right[0] += word.weight;
      if (word.word == guess.after(before)) right[1] += word.weight;
    }
  });
  sum_over_ranks(right, test.comm());
  return {right[0], right[1]};
}

InputShape model_input(const TrainPlan& plan, const data::Dataset& data,
                       const std::optional<MaskedTraining>& masked) {
  auto shape = shape_of(data);
  if (!masked) return shape;
  const auto& file = plan.model.file;
  if (masked->vocabulary().added && !file.empty())
    throw BadInput("train.objective = masked: no word of the model in model.file = " + file +
                   " is called <mask> or [MASK]");
  shape.vocabulary = masked->vocabulary().size;
  shape.classes = 0;
  shape.word_head = true;
  shape.own_word_matrix = plan.objective.own_word_matrix;
  return shape;
}

std::vector<std::string> words_of_model(const data::Dataset& data,
                                        const std::optional<MaskedTraining>& masked) {
  auto words = data.words();
  if (!words.empty() && masked && masked->vocabulary().added) words.emplace_back(data::Vocabulary::mask_word);
  return words;
}

std::optional<Parameters> read_teacher(const TrainPlan& plan, const data::Dataset& data,
                                       const std::optional<MaskedTraining>& masked, const InputShape& input,
                                       MPI_Comm comm) {
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
      (spec.tokens != input.tokens && (spec.tokens < input.tokens || !plan.model.first_positions)))
    throw BadInput("distill.teacher = " + file + ": was trained on tokens other than those of data.set");
  if (archive.has(model_file::embedding_vocabulary) &&
      archive.words(model_file::embedding_vocabulary) != words_of_model(data, masked))
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
