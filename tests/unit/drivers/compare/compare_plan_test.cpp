// From the words of a deck to the models and samples of a comparison.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drivers/compare/compare_problem.hpp"
#include "tests/unit/drivers/plan.hpp"

namespace fluxformer::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ComparePlans, have_the_models_and_the_samples_of_the_deck) {
  const auto of_deck = compare_plan_of(
      plan("hessian_spectrum",
           {"models.seeds=3, 1", "models.mlp=m.h5", "models.transformer=t_{seed}.h5", "models.inherited=2",
            "output.file=o.h5", "data.tokens=rows", "data.split=train", "samples.count=7", "samples.batch=5",
            "run.seed=11", "mesh.ranks_token=2", "run.precision=single"}));
  EXPECT_THAT(of_deck.models.seeds, ElementsAre(3, 1));
  EXPECT_THAT(of_deck.models.files, ElementsAre(Pair("transformer", "t_{seed}.h5"), Pair("mlp", "m.h5")));
  EXPECT_EQ(of_deck.models.inherited, 2);
  EXPECT_EQ(of_deck.models.output, "o.h5");
  EXPECT_THAT(of_deck.models.data, ElementsAre(Pair("data.set", "digits"), Pair("data.tokens", "rows")));
  EXPECT_FALSE(of_deck.models.first_positions);
  EXPECT_EQ(of_deck.input.data.set.tokens, "rows");
  EXPECT_EQ(of_deck.input.data.set.seed, 11U);
  EXPECT_EQ(of_deck.input.split, "train");
  EXPECT_EQ(of_deck.input.count, 7);
  EXPECT_EQ(of_deck.input.batch, 5);
  EXPECT_EQ(of_deck.input.seed, 11U);
  EXPECT_EQ(of_deck.ranks_token, 2);
  EXPECT_EQ(of_deck.precision, Precision::float32);
}

TEST(ComparePlans, do_without_the_keys_that_an_experiment_does_not_have) {
  const auto of_deck = compare_plan_of(plan("information_flow", {"data.set=tokens"}));
  EXPECT_THAT(of_deck.models.files, IsEmpty());
  EXPECT_TRUE(of_deck.models.first_positions);
  EXPECT_EQ(of_deck.input.split, "test");
  EXPECT_EQ(of_deck.ranks_token, 1);
}

}  // namespace
}  // namespace fluxformer::test
