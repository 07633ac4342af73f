// Spearman's rank correlation against values by hand and the formula without ties.

#include "analysis/identifiability/rank_correlation.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::identifiability {
namespace {

using List = std::vector<double>;

constexpr double rank_correlation_rounding = 1e-14;  // one square root and one quotient of exact sums

TEST(RankCorrelation, gives_tied_values_the_mean_of_their_places) {
  EXPECT_EQ(mid_ranks(List{10, -3, 7}), (List{3, 1, 2}));
  EXPECT_EQ(mid_ranks(List{2, 1, 2, 5}), (List{2.5, 1, 2.5, 4}));
  EXPECT_EQ(mid_ranks(List{4, 4, 4}), (List{2, 2, 2}));
  EXPECT_EQ(mid_ranks(List{}), List{});
}

TEST(RankCorrelation, of_known_lists_is_known) {
  // IQ against hours of television, the textbook example: sum d^2 = 194, 1 - 6 * 194 / (10 * 99) = -29/165.
  const List iq{86, 97, 99, 100, 101, 103, 106, 110, 112, 113}, hours{2, 20, 28, 27, 50, 29, 7, 17, 6, 12};
  EXPECT_NEAR(spearman(iq, hours), -29.0 / 165, rank_correlation_rounding);
  EXPECT_NEAR(spearman(List{1, 2, 3, 4}, List{1, 8, 27, 64}), 1, rank_correlation_rounding);
  EXPECT_NEAR(spearman(List{1, 2, 3, 4}, List{0.4, 0.3, 0.2, 0.1}), -1, rank_correlation_rounding);
}

TEST(RankCorrelation, with_ties_is_the_correlation_of_the_mid_ranks) {
  // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, squares 4.5 and 5.
  EXPECT_NEAR(spearman(List{0, 5, 5, 9}, List{-1, 3, 2, 7}), 4.5 / std::sqrt(4.5 * 5),
              rank_correlation_rounding);
  // The order in which tied values come does not matter.
  EXPECT_EQ(spearman(List{0, 5, 5, 9}, List{-1, 2, 3, 7}), spearman(List{0, 5, 5, 9}, List{-1, 3, 2, 7}));
}

TEST(RankCorrelation, without_ties_is_the_formula_with_squared_differences) {
  const auto x = fluxformer::test::random_vector(50, 1),
             y = fluxformer::test::plus(fluxformer::test::random_vector(50, 2), 1, x);
  const auto a = mid_ranks(x), b = mid_ranks(y);
  double squares = 0;
  for (std::size_t i = 0; i < 50; ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  EXPECT_NEAR(spearman(x, y), 1 - 6 * squares / (50.0 * (50 * 50 - 1)), rank_correlation_rounding);
  EXPECT_EQ(spearman(x, y), spearman(y, x));
}

TEST(RankCorrelation, of_a_constant_side_does_not_exist) {
  EXPECT_TRUE(std::isnan(spearman(List{1, 1, 1}, List{1, 2, 3})));
  EXPECT_TRUE(std::isnan(spearman(List{1, 2, 3}, List{0.1, 0.1, 0.1})));
  EXPECT_TRUE(std::isnan(spearman(List{1}, List{2})));
  EXPECT_TRUE(std::isnan(spearman(List{}, List{})));
}

TEST(RankCorrelation, of_different_sizes_or_no_numbers_is_refused) {
  EXPECT_THROW(spearman(List{1, 2}, List{1, 2, 3}), BadInput);
  EXPECT_THROW(spearman(List{1, NAN}, List{1, 2}), BadInput);
  EXPECT_EQ(mid_ranks(List{INFINITY, 0, -INFINITY}), (List{3, 2, 1}));
}

}  // namespace
}  // namespace fluxformer::identifiability
