#include "drivers/train/starting_model.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "data/text/vocabulary.hpp"
#include "drivers/common/data_options.hpp"
#include "drivers/common/model_options.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "model/model_file.hpp"
#include "model/model_variables.hpp"

namespace fluxformer {
InputShape model_input(const Settings& settings, const data::Dataset& data,
                       const std::optional<MaskedTraining>& masked) {
  auto shape = shape_of(data);
  if (!masked) return shape;
  const auto& file = settings.word("model.file");
  if (masked->vocabulary().added && !file.empty())
    throw BadInput("train.objective = masked: no word of the model in model.file = " + file +
                   " is called <mask> or [MASK]");
  shape.vocabulary = masked->vocabulary().size;
  shape.classes = 0;
  shape.word_head = true;
  shape.own_word_matrix = settings.word("train.word_matrix") == "own";
  return shape;
}

std::vector<std::string> words_of_model(const data::Dataset& data,
                                        const std::optional<MaskedTraining>& masked) {
  auto words = data.words();
  if (!words.empty() && masked && masked->vocabulary().added) words.emplace_back(data::Vocabulary::mask_word);
  return words;
}

bool guesses_words(const Settings& settings) {
  return settings.word("train.objective") == "masked";
}

Loss loss_of_settings(const Settings& settings) {
  return {loss_kind(settings.word("train.loss")), settings.real("train.label_smoothing"),
          guesses_words(settings) ? LossTarget::masked_words : LossTarget::label};
}

Distillation::Weights distillation_weights(const Settings& settings) {
  return {settings.real("distill.hidden"), settings.real("distill.attention")};
}

std::optional<Parameters> read_teacher(const Settings& settings, const data::Dataset& data,
                                       const std::optional<MaskedTraining>& masked, MPI_Comm comm) {
  const auto& file = settings.word("distill.teacher");
  const auto weights = distillation_weights(settings);
  if (file.empty()) return {};
  if (weights.hidden == 0 && weights.attention == 0)
    throw BadInput("distill.teacher: needs distill.hidden or distill.attention > 0");
  const io::ArchiveReader archive(comm, file, "distill.teacher = ");
  auto teacher = read_model(archive);
  const auto& spec = teacher.spec;
  const auto input = model_input(settings, data, masked);
  if (spec.features != input.features || spec.vocabulary != input.vocabulary ||
      spec.segments != input.segments ||
      (spec.tokens != input.tokens && (spec.tokens < input.tokens || !takes_first_positions(settings))))
    throw BadInput("distill.teacher = " + file + ": was trained on tokens other than those of data.set");
  if (archive.has(model_file::embedding_vocabulary) &&
      archive.words(model_file::embedding_vocabulary) != words_of_model(data, masked))
    throw BadInput("distill.teacher = " + file +
                   ": its vocabulary differs from that of data.set; data.vocabulary, data.least_count and "
                   "the parts of the texts that are kept must be the same");
  return teacher;
}

AdaptedModel starting_model(const Settings& settings, const data::Dataset& data,
                            const std::optional<MaskedTraining>& masked,
                            const std::optional<Parameters>& teacher, const ShareOf& share, MPI_Comm comm) {
  const auto input = model_input(settings, data, masked);
  auto made = make_parameters(settings, input, comm, share);
  if (!settings.word("model.file").empty())
    return with_heads(made, input.classes, {.present = input.word_head, .own_matrix = input.own_word_matrix},
                      static_cast<std::uint64_t>(settings.integer("model.seed")));
  AdaptedModel start{std::move(made), ""};
  if (!teacher || !settings.flag("distill.copy")) return start;
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
