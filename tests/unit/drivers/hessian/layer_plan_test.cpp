// From the words of a deck to the attention layers whose Hessians are measured.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drivers/hessian/layer_study.hpp"
#include "tests/unit/drivers/plan.hpp"

namespace fluxformer::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LayerPlans, of_blocks_measure_entries_and_those_of_scaling_norms) {
  const auto blocks =
      layer_blocks_plan_of(plan("hessian_blocks", {"hessian.heat_map=true", "hessian.seeds=3, 1"}));
  EXPECT_FALSE(blocks.follows_norms());
  EXPECT_TRUE(blocks.heat_map);
  EXPECT_THAT(blocks.seeds, ElementsAre(3, 1));
  EXPECT_THAT(blocks.sigmas, IsEmpty());
  EXPECT_EQ(blocks.common.shape.depth, 1);
  const auto scaling = layer_scaling_plan_of(
      plan("hessian_scaling", {"hessian.sigmas=0.5, 2", "hessian.depth=3", "hessian.norm_probes=7"}));
  EXPECT_TRUE(scaling.follows_norms());
  EXPECT_THAT(scaling.sigmas, ElementsAre(0.5, 2));
  EXPECT_EQ(scaling.common.shape.depth, 3);
  EXPECT_EQ(scaling.common.probes, 7);
}

TEST(LayerPlans, give_each_kind_its_attention_and_its_norms) {
  const auto layers = layer_blocks_plan_of(
      plan("hessian_blocks", {"hessian.width=8", "hessian.mlp=true", "hessian.residual=0.5",
                              "hessian.loss=squared_error", "hessian.sequences=5"}));
  const auto softmax = layers.study_of("softmax", 4), linear = layers.study_of("linear", 4),
             before = layers.study_of("softmax_pre_norm", 4),
             behind = layers.study_of("softmax_post_norm", 4);
  EXPECT_EQ(softmax.seed, 4U);
  EXPECT_EQ(softmax.sequences, 5);
  EXPECT_EQ(softmax.shape.width, 8);
  EXPECT_EQ(softmax.shape.hidden, 32);
  EXPECT_EQ(softmax.shape.residual, 0.5);
  EXPECT_EQ(softmax.loss, decoder::LogitLoss::squared_error);
  EXPECT_EQ(softmax.shape.scores, decoder::Scores::softmax);
  EXPECT_EQ(linear.shape.scores, decoder::Scores::linear);
  EXPECT_FALSE(softmax.shape.norm_epsilon.has_value());
  EXPECT_TRUE(before.shape.norms(decoder::NormPlace::before).has_value());
  EXPECT_TRUE(behind.shape.norms(decoder::NormPlace::behind).has_value());
  EXPECT_EQ(layer_blocks_plan_of(plan("hessian_blocks", {"hessian.mlp=false"})).common.shape.hidden, 0);
}

}  // namespace
}  // namespace fluxformer::test
