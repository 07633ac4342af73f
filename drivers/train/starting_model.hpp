#pragma once

// The model that a training starts from, its loss, and its teacher.

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "data/dataset.hpp"
#include "drivers/train/masked_training.hpp"
#include "model/distillation.hpp"
#include "model/heads.hpp"
#include "model/loss.hpp"
#include "model/model_file.hpp"

namespace fluxformer {

/// True if train.objective = masked.
bool guesses_words(const Settings& settings);
/// The loss of train.objective, train.loss and train.label_smoothing.
Loss loss_of_settings(const Settings& settings);

/// The weights of distill.hidden and distill.attention.
Distillation::Weights distillation_weights(const Settings& settings);
/// Words of the model's table: those of the data, and the mask if it is none of them. Empty where words have
/// no names.
std::vector<std::string> words_of_model(const data::Dataset& data,
                                        const std::optional<MaskedTraining>& masked);
/// Reads the model in distill.teacher and adapts it to these data; std::nullopt without a teacher.
/// Collective; throws BadInput.
std::optional<Parameters> read_teacher(const Settings& settings, const data::Dataset& data,
                                       const std::optional<MaskedTraining>& masked, MPI_Comm comm);

/// Input shape and heads that the data and the task require of the model. Throws BadInput.
InputShape model_input(const Settings& settings, const data::Dataset& data,
                       const std::optional<MaskedTraining>& masked);

/// Makes parameters as make_parameters does, with the heads that the task needs. From a model file what fits
/// is kept; otherwise the teacher's embedding, final norm and heads are copied if distill.copy says so.
/// Collective; throws BadInput.
AdaptedModel starting_model(const Settings& settings, const data::Dataset& data,
                            const std::optional<MaskedTraining>& masked,
                            const std::optional<Parameters>& teacher, const ShareOf& share, MPI_Comm comm);

}  // namespace fluxformer
