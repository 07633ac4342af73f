// Precision of scores that look for wrong samples.

#include "analysis/influence/detection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace fluxformer::influence {
namespace {

using Numbers = std::vector<double>;
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

TEST(Precision, is_the_share_of_wrong_samples_among_the_largest_scores) {
  const Numbers scores{3, -1, 8, 5, 0}, wrong{0, 1, 1, 1, 0};
  EXPECT_EQ(precision_at(scores, wrong, 1), 1);
  EXPECT_EQ(precision_at(scores, wrong, 2), 1);
  EXPECT_EQ(precision_at(scores, wrong, 3), 2.0 / 3);
  EXPECT_EQ(precision_at(scores, wrong, 5), 3.0 / 5);
}

TEST(Precision, of_a_score_that_knows_is_one_and_of_its_opposite_zero) {
  const Numbers wrong{0, 1, 0, 0, 1, 0};
  Numbers opposite;
  for (const double one : wrong) opposite.push_back(-one);
  EXPECT_EQ(precision_at(wrong, wrong, 2), 1);
  EXPECT_EQ(precision_at(opposite, wrong, 2), 0);
}

TEST(Precision, of_equal_scores_is_the_mean_over_their_orders) {
  EXPECT_DOUBLE_EQ(precision_at(Numbers{7, 7, 7, 7}, Numbers{1, 0, 0, 0}, 2), 0.25);
  // One place above, then one of three equals of which two are wrong, by all orders of the five samples.
  const Numbers scores{2, 5, 2, 1, 2}, wrong{1, 0, 0, 1, 1};
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  double sum = 0;
  int orders = 0;
  do {
    if (!std::ranges::is_sorted(order, std::ranges::greater{}, [&](std::size_t i) { return scores[i]; }))
      continue;
    sum += (wrong[order[0]] + wrong[order[1]]) / 2;
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 6);
  EXPECT_DOUBLE_EQ(precision_at(scores, wrong, 2), sum / orders);
}

TEST(Precision, puts_scores_that_are_no_numbers_last) {
  EXPECT_EQ(precision_at(Numbers{no_number, 1, -2}, Numbers{1, 0, 0}, 2), 0);
  EXPECT_EQ(largest_scores(Numbers{no_number, 1, -2, 1}, 4), (std::vector<std::size_t>{1, 3, 2, 0}));
}

TEST(Precision, is_not_defined_among_no_samples) {
  EXPECT_TRUE(std::isnan(precision_at(Numbers{1, 2}, Numbers{0, 0}, 0)));
}

TEST(Precision, refuses_lists_that_do_not_fit) {
  EXPECT_THROW(precision_at(Numbers{1, 2}, Numbers{0}, 1), std::invalid_argument);
  EXPECT_THROW(precision_at(Numbers{1, 2}, Numbers{0, 1}, 3), std::invalid_argument);
}

TEST(LargestScores, come_in_their_order_and_no_more_than_there_are) {
  EXPECT_EQ(largest_scores(Numbers{1, 9, 4}, 2), (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(largest_scores(Numbers{1, 9, 4}, 7).size(), 3U);
}

}  // namespace
}  // namespace fluxformer::influence
