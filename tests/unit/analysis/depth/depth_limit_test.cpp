// The limit of a sequence whose error is a power of the length of a cell.

#include "analysis/depth/depth_limit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

namespace fluxformer {
namespace {

/// limit + error * 2^(-order k), k = 0 .. count - 1
std::vector<double> converging(double limit, double error, int order, int count) {
  std::vector<double> values;
  for (int k = 0; k < count; ++k) values.push_back(limit + error * std::exp2(-order * k));
  return values;
}

TEST(DepthLimit, is_exact_for_an_error_that_is_a_power_of_the_length) {
  for (const int order : {1, 2, 4}) {
    const auto found = depth_limit(converging(2.5, -1.5, order, 4), order);
    EXPECT_NEAR(found.order, order, 1e-10);  // of differences of numbers of order 1 that are at least 1e-3
    EXPECT_TRUE(found.asymptotic);
    EXPECT_NEAR(found.value, 2.5, 1e-14);
    EXPECT_NEAR(found.distance, 1.5, 1e-14);
  }
}

TEST(DepthLimit, is_not_extrapolated_at_another_order) {
  const auto found = depth_limit(converging(2.5, -1.5, 1, 4), 2);
  EXPECT_FALSE(found.asymptotic);
  EXPECT_EQ(found.value, 2.5 - 1.5 / 8);
  EXPECT_NEAR(found.seen, 1.5 - 1.5 / 8, 1e-14);
  // The rest of this geometric series, up to its limit.
  EXPECT_NEAR(found.distance, 1.5, 1e-14);
}

TEST(DepthLimit, adds_what_slow_convergence_leaves_but_at_most_ten_times_the_last_difference) {
  const auto slow = [](double ratio) {  // 1 + 1/ratio + 1/ratio^2
    return depth_limit(std::vector{0.0, 1.0, 1 + 1 / ratio, 1 + 1 / ratio + 1 / ratio / ratio}, 1);
  };
  // The series 1 + 1/r + ... is r / (r - 1).
  EXPECT_NEAR(slow(1.25).distance, 5, 1e-14);
  EXPECT_NEAR(slow(1.05).distance - slow(1.05).seen, 10 / 1.05 / 1.05, 1e-14);
  EXPECT_NEAR(slow(0.5).distance - slow(0.5).seen, 40, 1e-14);
}

TEST(DepthLimit, counts_changes_on_the_way_to_the_limit) {
  for (const auto& values : {std::vector{0.3, 0.9, 0.31, 0.31}, {0.3, 0.9, 0.6, 0.45}}) {
    EXPECT_NEAR(depth_limit(values, 1).seen, 0.6, 1e-15);
    EXPECT_EQ(depth_limit(values, 1).within(0.5), std::optional(false));
  }
}

TEST(DepthLimit, is_within_a_tolerance_or_not_or_that_is_unknown) {
  const std::vector values{0.0, 1.0, 2.0};  // no decrease: 10 may still come
  EXPECT_EQ(depth_limit(values, 1).within(2), std::optional(false));
  EXPECT_EQ(depth_limit(values, 1).within(2.1), std::nullopt);
  EXPECT_EQ(depth_limit(values, 1).within(12.1), std::optional(true));
}

TEST(DepthLimit, accepts_an_order_within_a_quarter_only) {
  for (const auto& [ratio, accepted] : {std::pair{std::exp2(1.24), true},
                                        {std::exp2(1.26), false},
                                        {std::exp2(0.76), true},
                                        {std::exp2(0.74), false}})
    EXPECT_EQ(depth_limit(std::vector{0.0, ratio, ratio + 1}, 1).asymptotic, accepted) << ratio;
}

TEST(DepthLimit, has_no_order_where_differences_vanish_or_change_sign) {
  for (const auto& values :
       {std::vector{1.0}, {1.0, 2.0}, {1.0, 2.0, 2.0}, {1.0, 2.0, 1.5}, {1.0, 1.0, 1.0}}) {
    const auto found = depth_limit(values, 1);
    EXPECT_TRUE(std::isnan(found.order));
    EXPECT_FALSE(found.asymptotic);
    EXPECT_EQ(found.value, values.back());
  }
  EXPECT_EQ(depth_limit(std::vector{1.0, 1.0, 1.0}, 1).distance, 0);
  EXPECT_EQ(depth_limit(std::vector{1.0, 2.0, 1.5}, 1).distance, 1 + 10 * 0.5);
  for (const auto& values : {std::vector{1.0, 2.0, std::nan("")}, {1.0, std::nan(""), 1.0}}) {
    EXPECT_FALSE(depth_limit(values, 1).asymptotic);
    EXPECT_EQ(depth_limit(values, 1).within(1e300), std::optional(false));
  }
  EXPECT_THROW(depth_limit({}, 1), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer
