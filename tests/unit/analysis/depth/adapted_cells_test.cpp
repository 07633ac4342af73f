// Cells placed by indicators, on densities whose best cells are known.

#include "analysis/depth/adapted_cells.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace fluxformer::depth {
namespace {

using Numbers = std::vector<double>;

/// |eta_i| = (integral of e^(3s/2) over cell i)^2: that of the density e^(3s) to second order.
Numbers growing(const DepthCells& depth) {
  Numbers eta;
  for (int cell = 1; cell <= depth.cells; ++cell) {
    const double part = (std::exp(1.5 * depth.depth(cell)) - std::exp(1.5 * depth.depth(cell - 1))) / 1.5;
    eta.push_back(part * part);
  }
  return eta;
}

double sum(const Numbers& of) {
  return std::accumulate(of.begin(), of.end(), 0.0);
}

TEST(PredictedGain, of_16_1_1_1_is_76_49ths) {
  EXPECT_NEAR(predicted_gain({1, 4}, {16, 1, -1, 1}, 1), 76.0 / 49, 1e-14);
  EXPECT_NEAR(predicted_gain({7, 4}, {2, 2, 2, 2}, 1), 1, 1e-14);
  EXPECT_TRUE(std::isnan(predicted_gain({1, 2}, {0, 0}, 1)));
}

TEST(PredictedGain, of_squares_of_the_lengths_is_1_on_any_cells) {
  const auto depth = DepthCells::between(2, {0, 0.1, 0.7, 2});
  EXPECT_NEAR(predicted_gain(depth, {0.01, 0.36, 1.69}, 1), 1, 1e-14);
}

TEST(PredictedGain, is_reached_by_equidistribution) {
  const DepthCells equal{2, 64};
  const auto best = equidistributed(equal, growing(equal), 64, 1);
  // The density varies within a cell, by h e^(3s) / 3 to second order: 2 % at h = 1/32.
  EXPECT_NEAR(sum(growing(equal)) / sum(growing(best)), predicted_gain(equal, growing(equal), 1),
              0.02 * predicted_gain(equal, growing(equal), 1));
  EXPECT_GT(predicted_gain(equal, growing(equal), 1), 1.4);
  // It is that over equal cells, told from any.
  EXPECT_NEAR(predicted_gain(best, growing(best), 1) / predicted_gain(equal, growing(equal), 1), 1, 0.02);
}

TEST(Equidistribution, of_equal_indicators_on_equal_cells_is_equal) {
  EXPECT_EQ(equidistributed({3, 6}, Numbers(6, 0.3), 6, 1), (DepthCells{3, 6}));
  EXPECT_EQ(equidistributed({3, 6}, Numbers(6, 0.3), 9, 1), (DepthCells{3, 9}));
  EXPECT_EQ(equidistributed({3, 6}, Numbers(6, 0.0), 4, 1), (DepthCells{3, 4}));
}

TEST(Equidistribution, of_the_squares_of_the_lengths_is_equal) {
  const auto depth = DepthCells::between(3, {0, 0.25, 1, 1.5, 3});
  Numbers eta;
  for (int cell = 1; cell <= 4; ++cell) eta.push_back(-depth.length(cell) * depth.length(cell));
  const auto found = equidistributed(depth, eta, 5, 1);  // these squares have fewer than the ten digits kept
  for (int row = 0; row <= 5; ++row) EXPECT_NEAR(found.depth(row), row * 0.6, 1e-14);
}

TEST(Equidistribution, of_a_method_of_order_4_takes_fifth_powers_of_the_lengths_for_equal) {
  const auto depth = DepthCells::between(3, {0, 0.25, 1, 1.5, 3});
  Numbers eta;
  for (int cell = 1; cell <= 4; ++cell) eta.push_back(std::pow(depth.length(cell), 5));
  EXPECT_NEAR(predicted_gain(depth, eta, 4), 1, 1e-13);
  EXPECT_NEAR(predicted_gain({1, 2}, {32, 1}, 4), 16 * 33.0 / 243, 1e-13);
  // Indicators have 10 digits of the largest, 1.5^5: those of the shortest cell, 0.25^5, are known to 4e-7, and their fifth roots to 1e-7.
  const auto found = equidistributed(depth, eta, 5, 4);
  for (int row = 0; row <= 5; ++row) EXPECT_NEAR(found.depth(row), row * 0.6, 1e-7);
}

TEST(Equidistribution, leaves_cells_where_there_is_nothing) {
  // sqrt(g) is 1 in the first half and its floor, 1/1000, in the second: 3 of 4 edges within the first half.
  const auto found = equidistributed({2, 2}, {1, 0}, 4, 1);
  for (int row = 1; row < 4; ++row) EXPECT_NEAR(found.depth(row), row * 1.001 / 4, 1e-12);
}

TEST(Marking, takes_the_fewest_cells_with_a_share_of_the_sum) {
  using Marks = std::vector<bool>;
  EXPECT_EQ(marked_cells({1, -5, 2, 2}, 0.5, 4), (Marks{false, true, false, false}));
  EXPECT_EQ(marked_cells({1, -5, 2, 2}, 0.6, 4), (Marks{false, true, true, false})) << "the first of equals";
  EXPECT_EQ(marked_cells({1, -5, 2, 2}, 0.9, 4), (Marks{false, true, true, true}));
  EXPECT_EQ(marked_cells({1, -5, 2, 2}, 0.9, 2), (Marks{false, true, true, false}))
      << "no more than asked for";
  EXPECT_EQ(marked_cells({1, 0, 2, 0}, 1, 4), (Marks{true, false, true, false})) << "zeros never";
  EXPECT_EQ(marked_cells({0, 0}, 1, 2), (Marks{false, false}));
}

TEST(Marking, does_not_mind_round_off) {
  EXPECT_EQ(marked_cells({1, 1 + 1e-13, 1, 1 - 1e-13}, 0.25, 4), marked_cells({1, 1, 1, 1}, 0.25, 4));
}

TEST(Bisection, of_all_cells_is_twice_as_many_equal_ones) {
  EXPECT_EQ(bisected({4, 6}, std::vector<bool>(6, true)), (DepthCells{4, 12}));
  EXPECT_EQ(bisected({4, 6}, std::vector<bool>(6, false)), (DepthCells{4, 6}));
  EXPECT_EQ(bisected({1, 2}, {false, true}).edges, (Numbers{0, 0.5, 0.75, 1}));
}

}  // namespace
}  // namespace fluxformer::depth
