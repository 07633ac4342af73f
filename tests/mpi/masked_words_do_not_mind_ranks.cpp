// Guessing masked words on a distributed token line: the words that are masked, loss, gradient and Hessian
// products are those of one rank. Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include "model/loss_hessian.hpp"
#include "model/tasks/word_targets.hpp"
#include "tests/support/small_word_models.hpp"

namespace fluxformer::masked_words_do_not_mind_ranks {
namespace {

using namespace test;

/// All results of a batch on the ranks of `comm`, `ranks_token` of them in a row.
struct Results {
  double loss, correct;
  std::vector<double> gradient, hessian, gauss_newton;
};

Results results(MPI_Comm comm, int ranks_token, const SmallClassifier& c) {
  const auto data = random_words(3 * size_of(comm) / ranks_token, SmallClassifier::tokens_x,
                                 SmallClassifier::tokens_y, SmallClassifier::words, c.model.segments, 1);
  TrainingRun run(comm, ranks_token,
                  {.cells = c.cells, .global = 3 * size_of(comm) / ranks_token, .loss = c.loss}, data,
                  c.parameters());
  LossHessian hessian(run.parameters, run.context, run.march.depth(), 1, c.loss);
  const auto batch = masked_batch(c.model);
  const std::size_t size = run.parameters.values.size();
  std::vector<double> gradient(size, 0.0);
  const auto value = hessian.linearise(batch, gradient);
  const auto product = [&](Curvature part) {
    std::vector<double> mine(size);
    hessian.multiply(part, random_vector(size, 4), mine);
    return sum_over(run.line_comm, std::move(mine));
  };
  EXPECT_NEAR(run.evaluator.evaluate(batch).loss, value.loss, 1e-14);
  return {value.loss, value.correct, sum_over(run.line_comm, gradient), product(Curvature::hessian),
          product(Curvature::gauss_newton)};
}

TEST(MaskedWords, give_the_same_loss_gradient_and_products_on_any_number_of_ranks_over_tokens) {
  for (const auto& c : small_word_models()) {
    const auto alone = results(MPI_COMM_SELF, 1, c);
    for (const int ranks : every_token_split(MPI_COMM_WORLD, SmallClassifier::tokens_x)) {
      const auto together = results(MPI_COMM_WORLD, ranks, c);
      const auto here = c.name + ", ranks over tokens " + std::to_string(ranks);
      // Sums over tokens in another order.
      EXPECT_NEAR(together.loss, alone.loss, 1e-13) << here;
      EXPECT_NEAR(together.correct, alone.correct, 1e-14) << here;
      EXPECT_LT(relative_difference(together.gradient, alone.gradient), 1e-12) << here;
      EXPECT_LT(relative_difference(together.hessian, alone.hessian), 1e-12) << here;
      EXPECT_LT(relative_difference(together.gauss_newton, alone.gauss_newton), 1e-12) << here;
    }
  }
}

/// Input at every token of every sample, and weight and word of the masked word there (weight 0: not masked),
/// as [sample][token].
struct Shown {
  std::vector<double> input, weight, word;
};

Shown shown(MPI_Comm comm, int ranks_token, const data::Dataset& data, int capacity) {
  const auto tokens = static_cast<std::size_t>(data.tokens_x());
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm, replica_of(comm, ranks_token).index, rank_in(comm), &part));
  const Communicator line_comm(part);
  const auto line = token_line(line_comm, data);
  const WordMasking masking(data, 0.3);
  const double mean = masking.mean_count(all_of(data));
  Shown all;
  for (auto* numbers : {&all.input, &all.weight, &all.word}) numbers->assign(data.size() * tokens, 0.0);
  double differing = 0;
  SampleSet(comm, line, data, all_of(data), capacity)
      .prepared([&](Batch& batch) { masking.apply(batch, RandomStream(3, "masked words"), mean); })
      .for_batches([&](const Batch& batch) {
        // All ranks of a line see the same; the first of them counts.
        if (max_over(line_comm, dot(batch.input, batch.input)) != dot(batch.input, batch.input)) ++differing;
        if (line.rank() > 0) return;
        const auto at = [&](std::size_t slot) { return static_cast<std::size_t>(batch.key[slot]) * tokens; };
        for (std::size_t slot = 0; slot < batch.label.size(); ++slot)
          if (batch.weight[slot] != 0)
            for (std::size_t t = 0; t < tokens; ++t)
              all.input[at(slot) + t] += batch.input[slot * tokens + t];
        for (const auto& word : batch.targets) {
          const std::size_t place =
              at(static_cast<std::size_t>(word.sample)) + static_cast<std::size_t>(word.token);
          all.weight[place] += word.weight;
          all.word[place] += word.word;
        }
      });
  EXPECT_EQ(sum_over(comm, differing), 0);
  for (auto* numbers : {&all.input, &all.weight, &all.word}) *numbers = sum_over(comm, *numbers);
  return all;
}

TEST(MaskedWords, of_a_sample_are_the_same_whichever_ranks_and_slots_hold_it) {
  const auto data = random_texts(29, 12, 1);
  const auto alone = shown(MPI_COMM_SELF, 1, data, 29);
  double sum = 0;
  for (const double weight : alone.weight) sum += weight;
  EXPECT_NEAR(sum, 1, 1e-14);  // of about fifty numbers
  for (const int ranks : every_token_split(MPI_COMM_WORLD, data.tokens_x()))
    for (const int capacity : {1, 3, 8}) {
      const auto together = shown(MPI_COMM_WORLD, ranks, data, capacity);
      EXPECT_EQ(together.input, alone.input) << ranks;
      EXPECT_EQ(together.weight, alone.weight) << ranks;
      EXPECT_EQ(together.word, alone.word) << ranks;
    }
}

}  // namespace
}  // namespace fluxformer::masked_words_do_not_mind_ranks
