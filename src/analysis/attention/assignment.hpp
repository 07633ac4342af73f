#pragma once

// Optimal assignment: every row gets a different column, at the smallest sum of costs.

#include <vector>

namespace fluxformer::attention {

/// The column of each row, for cost[row][column] (row-major). With more rows than columns, the remaining rows
/// get -1. A non-finite cost counts as larger than the sum of all finite ones. Shortest augmenting paths,
/// O(rows^2 columns). Source: Kuhn 1955; Edmonds and Karp 1972 (prices); Crouse 2016 (rectangular). Throws
/// std::invalid_argument unless there are rows * columns costs.
std::vector<int> optimal_assignment(const std::vector<double>& cost, int rows, int columns);

}  // namespace fluxformer::attention
