// From the words of a deck to the trainings of an ablation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drivers/ablation/ablation_run.hpp"
#include "tests/unit/drivers/plan.hpp"

namespace fluxformer::test {
namespace {

using testing::ElementsAre;

AblationPlan ablation(const std::vector<std::string>& given) {
  return ablation_plan_of(plan("ablation", given));
}

TEST(AblationPlans, have_a_variant_for_each_model_residual_connection_and_norm) {
  const auto of_deck = ablation({"ablation.models=pde, transformer", "ablation.residual=off, on",
                                 "ablation.norm=post, none", "ablation.seeds=3, 1", "ablation.diverged=4"});
  std::vector<std::string> names;
  for (const auto& variant : of_deck.variants) names.push_back(variant.name());
  EXPECT_THAT(names, ElementsAre("pde_post_no_residual", "pde_none_no_residual", "pde_post", "pde_none",
                                 "transformer_post_no_residual", "transformer_none_no_residual",
                                 "transformer_post", "transformer_none"));
  EXPECT_THAT(of_deck.seeds, ElementsAre(3, 1));
  EXPECT_EQ(of_deck.diverged, 4);
}

TEST(AblationPlans, give_knots_and_diffusion_over_tokens_to_the_pde_alone) {
  const auto of_deck =
      ablation({"ablation.residual=off", "ablation.norm=pre", "model.knots=2", "mesh.layers=3",
                "model.kappa=channel", "equation.kappa=0.125", "train.epochs=7"});
  ASSERT_EQ(of_deck.variants.size(), 2U);
  const auto &transformer = of_deck.variants[0], &pde = of_deck.variants[1];
  EXPECT_EQ(transformer.spec().kind, ModelKind::transformer);
  EXPECT_EQ(transformer.spec().variation, DepthVariation::constant);
  EXPECT_EQ(transformer.spec().knots, 3);
  EXPECT_FALSE(transformer.spec().kappa_per_channel);
  EXPECT_EQ(transformer.training.model.kappa.value, 0);
  EXPECT_EQ(pde.spec().kind, ModelKind::pde);
  EXPECT_EQ(pde.spec().variation, DepthVariation::linear);
  EXPECT_EQ(pde.spec().knots, 2);
  EXPECT_TRUE(pde.spec().kappa_per_channel);
  EXPECT_EQ(pde.training.model.kappa.value, 0.125);
  for (const auto& variant : of_deck.variants) {
    EXPECT_EQ(variant.spec().norm, Norm::pre);
    EXPECT_TRUE(variant.spec().attention.layer_norm);
    EXPECT_FALSE(variant.spec().residual);
    EXPECT_EQ(variant.training.epochs, 7);
  }
}

TEST(AblationPlans, take_the_weights_the_samples_and_all_draws_of_a_training_from_its_seed) {
  const auto from_five = ablation({}).variants.front().training_from(5);
  EXPECT_EQ(from_five.seed, 5U);
  EXPECT_EQ(from_five.model.seed, 5U);
  EXPECT_EQ(from_five.samples.data.set.seed, 5U);
}

}  // namespace
}  // namespace fluxformer::test
