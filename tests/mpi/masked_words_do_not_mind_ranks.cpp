// Guessing masked words on a distributed token line: loss, gradient and Hessian products are those of one rank.

#include <gtest/gtest.h>

#include "model/second_order/loss_hessian.hpp"
#include "tests/support/small_word_models.hpp"

namespace fluxformer {
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

}  // namespace
}  // namespace fluxformer
