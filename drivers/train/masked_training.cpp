#include "drivers/train/masked_training.hpp"

#include <array>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "data/text/baselines.hpp"

namespace fluxformer {

MaskedTraining::MaskedTraining(const Settings& settings, const data::Dataset& train,
                               const std::vector<std::size_t>& members)
    : train_(train),
      members_(members),
      masking_(train, settings.real("train.masked")),
      mean_count_(train.vocabulary() > 0 ? masking_.mean_count(members) : 0),
      seed_(static_cast<std::uint64_t>(settings.integer("run.seed"))) {
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

}  // namespace fluxformer
