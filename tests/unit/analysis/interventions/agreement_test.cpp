// Agreement of accounts with exact effects, on lists whose numbers are known.

#include "analysis/interventions/agreement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fluxformer::interventions {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
using List = std::vector<double>;

TEST(Agreement, is_that_of_lists_computed_by_hand) {
  const auto half = agreement(List{1, 2, 3, 4}, List{2, 4, 6, 8});
  EXPECT_DOUBLE_EQ(half.spearman, 1);
  EXPECT_DOUBLE_EQ(half.pearson, 1);
  EXPECT_DOUBLE_EQ(half.relative_error, 0.5);
  EXPECT_TRUE(std::isnan(half.top_share));  // of ten places or fewer all would be found
  // Ranks 1 2 3 4 and 2 1 4 3: 1 - 6 * 4 / (4 * 15).
  EXPECT_NEAR(agreement(List{1, 2, 3, 4}, List{2, 1, 4, 3}).spearman, 0.6, 1e-15);
}

TEST(Agreement, leaves_out_places_without_a_number_and_has_none_of_constant_lists) {
  const auto found = agreement(List{1, nan, 3, 4, 5}, List{1, 2, nan, 4, 5});
  EXPECT_DOUBLE_EQ(found.spearman, 1);
  EXPECT_DOUBLE_EQ(found.relative_error, 0);
  const auto constant = agreement(List{1, 1, 1}, List{1, 2, 3});
  EXPECT_TRUE(std::isnan(constant.spearman));
  EXPECT_TRUE(std::isnan(constant.pearson));
  EXPECT_NEAR(constant.relative_error, std::sqrt(5.0 / 14), 1e-15);
  EXPECT_TRUE(std::isnan(agreement(List{1, 2}, List{0, 0}).relative_error));
  EXPECT_THROW(agreement(List{1}, List{1, 2}), std::invalid_argument);
}

TEST(Agreement, counts_the_ten_largest_places_that_are_found) {
  List account(20), exact(20);
  for (std::size_t k = 0; k < 20; ++k) {
    exact[k] = k % 2 == 0 ? 20.0 - static_cast<double>(k) : static_cast<double>(k) - 20.0;
    account[k] = k < 7 ? exact[k] : (k >= 17 ? 30 : 0.1 * static_cast<double>(k));
  }
  // Of the places 0 to 9 the account has 0 to 6 among its largest, beside 17 to 19.
  EXPECT_DOUBLE_EQ(agreement(account, exact).top_share, 0.7);
}

TEST(Agreement, means_leave_out_what_is_not_defined) {
  const auto mean = mean_agreement({{1, nan, 2, nan}, {0, nan, 4, nan}});
  EXPECT_DOUBLE_EQ(mean.spearman, 0.5);
  EXPECT_TRUE(std::isnan(mean.pearson));
  EXPECT_DOUBLE_EQ(mean.relative_error, 3);
}

TEST(Agreement, marks_where_the_second_order_is_large_beside_the_first) {
  EXPECT_EQ(untrusted(List{1, -1, 1, nan}, List{1.05, -1.2, 0.85, 2}, 0.1), (List{0, 1, 1, 0}));
}

TEST(Agreement, the_largest_are_a_share_of_the_places_that_have_a_number) {
  const List numbers{3, nan, -5, 1, 3};
  EXPECT_EQ(largest(numbers, 0.5), (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(largest(numbers, 0), std::vector<std::size_t>{});
  EXPECT_EQ(largest(numbers, 1), (std::vector<std::size_t>{0, 2, 3, 4}));
  EXPECT_THROW(largest(numbers, 1.1), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::interventions
