#include "drivers/ablation/ablation_run.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace fluxformer {
namespace {

TEST(Divergence, begins_with_the_first_epoch_after_which_most_losses_stay_high) {
  // Epochs of three steps, limit 1.
  EXPECT_EQ(diverged_since(1, {0, 0, 0, 0, 0, 0}, 3), 2);           // never
  EXPECT_EQ(diverged_since(1, {0, 0, 0, 2, 2, 0}, 3), 1);           // the last
  EXPECT_EQ(diverged_since(1, {2, 2, 2, 2, 0, 2}, 3), 0);           // all
  EXPECT_EQ(diverged_since(1, {9, 9, 9, 0, 0, 0, 2, 2, 2}, 3), 2);  // a bad start does not count
  EXPECT_EQ(diverged_since(1, {0, 0, 0, 2, 2, 2, 0, 0, 0}, 3), 3);  // nor what it recovers from
  EXPECT_EQ(diverged_since(1, {0, 0, 0, 2, 1, 0, 2, 0, 0}, 3), 3);  // nor single spikes
  EXPECT_EQ(diverged_since(1, {0, 0, 2, 2}, 2), 1);
  EXPECT_EQ(diverged_since(1, {0, 2, 2, 2}, 2), 1);  // half is not most
}

}  // namespace
}  // namespace fluxformer
