// Optimal assignment against exhaustive search.

#include "analysis/attention/attention_measures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tests/support/test_vectors.hpp"

namespace fluxformer::attention {
namespace {

using Columns = std::vector<int>;

double total(const std::vector<double>& cost, int columns, const Columns& column_of) {
  double sum = 0;
  for (std::size_t i = 0; i < column_of.size(); ++i)
    if (column_of[i] >= 0)
      sum += cost[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column_of[i])];
  return sum;
}

/// The smallest total over all ways to give as many rows as possible their own column.
double least_total(const std::vector<double>& cost, int rows, int columns) {
  // Slots beyond the columns mean "none", so that every permutation of the slots is an assignment.
  Columns slots(static_cast<std::size_t>(std::max(rows, columns)));
  std::iota(slots.begin(), slots.end(), 0);
  double least = INFINITY;
  do {
    Columns column_of(slots.begin(), slots.begin() + rows);
    for (int& column : column_of)
      if (column >= columns) column = -1;
    least = std::min(least, total(cost, columns, column_of));
  } while (std::next_permutation(slots.begin(), slots.end()));
  return least;
}

TEST(Assignment, is_the_cheapest_of_all) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {2, 2}, {3, 3}, {6, 6}, {4, 6}, {6, 4}, {1, 5}, {5, 1}})
    for (unsigned seed = 0; seed < 10; ++seed) {
      auto cost = test::random_vector(static_cast<std::size_t>(rows * columns), seed);
      // Integers every other time, so that many costs are equal.
      if (seed % 2 == 1)
        for (double& x : cost) x = std::round(2 * x);
      const auto found = optimal_assignment(cost, rows, columns);
      EXPECT_NEAR(total(cost, columns, found), least_total(cost, rows, columns), 1e-13)
          << rows << " x " << columns;
      Columns taken;
      for (const int column : found)
        if (column >= 0) taken.push_back(column);
      std::sort(taken.begin(), taken.end());
      EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end());
      EXPECT_EQ(taken.size(), static_cast<std::size_t>(std::min(rows, columns)));
    }
}

TEST(Assignment, is_not_greedy) {
  // The cheapest entry first, (0, 0), would cost 1 + 100.
  EXPECT_EQ(optimal_assignment({1, 2, 2, 100}, 2, 2), (Columns{1, 0}));
}

TEST(Assignment, recovers_a_permutation_of_many) {
  constexpr std::size_t n = 40;
  std::vector<double> cost(n * n, 1.0);
  for (std::size_t i = 0; i < n; ++i) cost[i * n + (7 * i + 3) % n] = 0.5;
  const auto found = optimal_assignment(cost, n, n);
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(found[i], static_cast<int>((7 * i + 3) % n));
}

TEST(Assignment, avoids_costs_that_are_not_finite) {
  EXPECT_EQ(optimal_assignment({NAN, 5, 1, INFINITY}, 2, 2), (Columns{1, 0}));
  // A row without finite costs takes what the others leave.
  EXPECT_EQ(optimal_assignment({NAN, NAN, NAN, 3, 1, 9, 1, 2, 9}, 3, 3), (Columns{2, 1, 0}));
}

TEST(Assignment, of_nothing_is_nothing_and_wrong_sizes_are_refused) {
  EXPECT_EQ(optimal_assignment({}, 0, 3), Columns{});
  EXPECT_EQ(optimal_assignment({}, 2, 0), (Columns{-1, -1}));
  EXPECT_THROW(optimal_assignment({1, 2, 3}, 2, 2), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::attention
