#pragma once

// Optimal assignment: every row gets a column of its own so that the sum of costs is least.

#include <vector>

namespace fluxformer::attention {

/// The column of each row, for cost[row][column] (row-major). With more rows than columns, the rows left over
/// get -1. Costs that are not finite are dearer than all others together. Shortest augmenting paths, O(rows^2
/// columns). Source: Kuhn 1955; Edmonds and Karp 1972 (prices); Crouse 2016 (rectangular). Throws
/// std::invalid_argument if there are not rows * columns costs.
std::vector<int> optimal_assignment(const std::vector<double>& cost, int rows, int columns);

}  // namespace fluxformer::attention
