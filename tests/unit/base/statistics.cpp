#include "base/statistics.hpp"

#include <gtest/gtest.h>

namespace fluxformer {
namespace {

TEST(Statistics, of_few_numbers) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(mean({1, 2, 6}), 3);
  const auto spread = spread_of({5, -1, 2, 2});
  EXPECT_EQ(spread.least, -1);
  EXPECT_EQ(spread.median, 2);
  EXPECT_EQ(spread.greatest, 5);
}

}  // namespace
}  // namespace fluxformer
