// Learning rates where a schedule begins, changes and ends.

#include "training/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

TEST(WarmUp, is_linear_and_reaches_the_peak_with_its_last_step) {
  for (const auto decay : {Decay::constant, Decay::cosine}) {
    const Schedule schedule{.peak = 0.8, .warm_up = 4, .steps = 20, .decay = decay};
    EXPECT_DOUBLE_EQ(schedule.rate(0), 0.2);
    EXPECT_DOUBLE_EQ(schedule.rate(1), 0.4);
    EXPECT_DOUBLE_EQ(schedule.rate(3), 0.8);
    // Continuous: the decay starts at the final warm-up value.
    EXPECT_DOUBLE_EQ(schedule.rate(4), 0.8);
  }
}

TEST(WarmUp, of_no_steps_begins_at_the_peak) {
  for (const auto decay : {Decay::constant, Decay::cosine, Decay::steps})
    EXPECT_EQ((Schedule{.peak = 0.8, .warm_up = 0, .steps = 20, .decay = decay}.rate(0)), 0.8);
}

TEST(Constant, stays) {
  const Schedule schedule{.peak = 0.3, .steps = 10, .decay = Decay::constant};
  for (const long step : {0, 5, 9, 10, 1000}) EXPECT_EQ(schedule.rate(step), 0.3);
}

TEST(Cosine, goes_from_the_peak_through_the_middle_to_the_last_rate) {
  const Schedule schedule{.peak = 1, .warm_up = 10, .steps = 110, .decay = Decay::cosine, .last = 0.2};
  EXPECT_EQ(schedule.rate(10), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(60), 0.6);
  // cos(pi / 3) = 1/2: a third of the way, a quarter of the fall.
  EXPECT_NEAR((Schedule{.peak = 1, .steps = 3, .decay = Decay::cosine}.rate(1)), 0.75, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.rate(110), 0.2);
  EXPECT_DOUBLE_EQ(schedule.rate(500), 0.2);
  // The last step of the training is the one before: 1 - cos(pi / 100) below.
  EXPECT_NEAR(schedule.rate(109), 0.2 + 0.4 * (1 - std::cos(M_PI / 100)), 1e-15);
}

TEST(Cosine, never_rises) {
  const Schedule schedule{.peak = 1, .warm_up = 3, .steps = 50, .decay = Decay::cosine, .last = 0.01};
  for (long step = 4; step < 60; ++step) EXPECT_LE(schedule.rate(step), schedule.rate(step - 1));
}

TEST(Cosine, that_is_all_warm_up_is_finite) {
  const Schedule schedule{.peak = 1, .warm_up = 10, .steps = 10, .decay = Decay::cosine};
  for (long step = 0; step < 12; ++step) {
    EXPECT_TRUE(std::isfinite(schedule.rate(step)));
    EXPECT_GE(schedule.rate(step), 0);
  }
}

TEST(Steps, fall_by_the_factor_at_each_share) {
  const Schedule schedule{
      .peak = 1, .warm_up = 2, .steps = 8, .decay = Decay::steps, .factor = 0.5, .at = {0.5, 0.75}};
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(5), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(6), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(7), 0.25);
}

TEST(Decay, is_named_or_refused) {
  EXPECT_EQ(decay_named("constant"), Decay::constant);
  EXPECT_EQ(decay_named("cosine"), Decay::cosine);
  EXPECT_EQ(decay_named("steps"), Decay::steps);
  try {
    decay_named("linear");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("train.schedule = linear"), testing::HasSubstr("cosine")));
  }
}

}  // namespace
}  // namespace fluxformer
