// A front has arrived where the state stays close to the steady one.

#include "analysis/states/depth_measures.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace fluxformer::states {
namespace {

TEST(ArrivalTimes, are_those_after_which_a_row_stays_within_the_threshold) {
  ArrivalTimes arrival(4, 0.1);
  arrival.update(0.0, {0.05, 1.0, 1.0, NAN});
  arrival.update(1.0, {0.05, 0.1, 0.05, 1.0});  // at the threshold counts
  arrival.update(2.0, {0.05, 0.0, 0.2, 1.0});   // the third leaves again
  arrival.update(3.0, {0.05, 0.0, 0.05, 1.0});
  EXPECT_EQ(arrival.times()[0], 0.0);
  EXPECT_EQ(arrival.times()[1], 1.0);
  EXPECT_EQ(arrival.times()[2], 3.0);
  EXPECT_TRUE(std::isnan(arrival.times()[3]));
}

TEST(ArrivalTimes, go_on_where_they_were_left) {
  ArrivalTimes first(2, 0.1), second(2, 0.1);
  first.update(1.0, {0.0, 1.0});
  second.restore(first.times());
  second.update(2.0, {0.0, 0.0});
  EXPECT_EQ(second.times(), (std::vector<double>{1.0, 2.0}));
}

}  // namespace
}  // namespace fluxformer::states
