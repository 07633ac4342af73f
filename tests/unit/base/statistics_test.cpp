#include "base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/random.hpp"

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

TEST(Statistics, of_independent_measurements_have_the_standard_error_of_their_mean) {
  const auto estimate = estimate_of({1, 2, 6});
  EXPECT_EQ(estimate.mean, 3);
  EXPECT_DOUBLE_EQ(estimate.standard_error, std::sqrt((4 + 1 + 9) / (3.0 * 2.0)));
  EXPECT_EQ(estimate.samples, (std::vector<double>{1, 2, 6}));
}

TEST(Statistics, of_a_series_have_the_standard_error_of_its_parts) {
  const std::vector<double> series{1, 3, 2, 4, 9, 5, 8};  // parts 1 3 | 2 4 | 9 5 8
  const auto estimate = blocked_estimate(series, 3);
  EXPECT_DOUBLE_EQ(estimate.mean, 32.0 / 7);
  EXPECT_EQ(estimate.samples, (std::vector<double>{2, 3, 22.0 / 3}));
  EXPECT_DOUBLE_EQ(estimate.standard_error, estimate_of({2, 3, 22.0 / 3}).standard_error);
  // Each number 50 times, of a random series: the error is that of the 400 independent numbers, seven times that of 20000.
  const RandomStream random(1, "test");
  std::vector<double> slow, numbers;
  for (int k = 0; k < 400; ++k) {
    numbers.push_back(random.normal(k));
    slow.insert(slow.end(), 50, numbers.back());
  }
  // 16 parts tell the error to 1 / sqrt(30), 18 per cent.
  EXPECT_NEAR(blocked_estimate(slow, 16).standard_error / estimate_of(numbers).standard_error, 1, 4 * 0.18);
  EXPECT_LT(estimate_of(slow).standard_error / estimate_of(numbers).standard_error, 0.2);
}

TEST(Statistics, add_gaussians_at_weighted_places) {
  const std::vector<double> centres = {0, 2}, weights = {3, 0.5}, grid = {0, 1, 2.5};
  const auto density = gaussian_mixture(centres, weights, 0.5, grid);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double x = grid[i], root = std::sqrt(2 * std::numbers::pi);
    EXPECT_NEAR(density[i],
                (3 * std::exp(-2 * x * x) + 0.5 * std::exp(-2 * (x - 2) * (x - 2))) / (0.5 * root), 1e-15);
  }
}

}  // namespace
}  // namespace fluxformer
