// From the words of a deck to the objective whose Hessian is analysed.

#include <gtest/gtest.h>

#include "drivers/hessian/model_hessian.hpp"
#include "tests/unit/drivers/plan.hpp"

namespace fluxformer::test {
namespace {

TEST(MinimisedPlans, know_what_was_given_and_what_the_training_of_a_model_decides) {
  const auto of_deck = minimised_plan_of(
      plan("hessian_spectrum", {"train.loss=mean_squared_error", "train.label_smoothing=0.25"}));
  EXPECT_EQ(of_deck.loss.name, "train.loss");
  EXPECT_EQ(of_deck.loss.value, "mean_squared_error");
  EXPECT_TRUE(of_deck.loss.given);
  EXPECT_EQ(of_deck.label_smoothing.value, 0.25);
  EXPECT_TRUE(of_deck.label_smoothing.given);
  EXPECT_EQ(of_deck.coefficients.value, "auto");
  EXPECT_FALSE(of_deck.coefficients.given);
  EXPECT_FALSE(of_deck.smoothness.given);
  EXPECT_EQ(of_deck.masked.value, 0.15);
  EXPECT_FALSE(of_deck.masked.given);
}

}  // namespace
}  // namespace fluxformer::test
