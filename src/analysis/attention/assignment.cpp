#include "analysis/attention/assignment.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace fluxformer::attention {
namespace {

/// Rows are matched one after another. Prices keep every reduced cost, cost - row price - column price, >= 0,
/// and = 0 on the matching; this proves that the matching is the cheapest one of the rows so far.
class Matching {
 public:
  Matching(const std::vector<double>& cost, std::size_t rows, std::size_t columns)
      : cost_(cost), columns_(columns), row_price_(rows), column_price_(columns), owner_(columns, none) {}

  /// Dijkstra over alternating paths from `row` to the nearest free column.
  void insert(std::size_t row) {
    constexpr double far = std::numeric_limits<double>::infinity();
    std::vector<double> distance(columns_, far);
    std::vector<std::size_t> before(columns_, none);  // the column whose owner leads here
    std::vector<bool> reached(columns_);
    double length = 0;
    std::size_t from = row, column = none;
    do {
      std::size_t nearest = none;
      for (std::size_t j = 0; j < columns_; ++j) {
        if (reached[j]) continue;
        const double there = length + cost_[from * columns_ + j] - row_price_[from] - column_price_[j];
        if (there < distance[j]) distance[j] = there, before[j] = column;
        if (nearest == none || distance[j] < distance[nearest]) nearest = j;
      }
      column = nearest;
      length = distance[column];
      reached[column] = true;
      from = owner_[column];
    } while (from != none);

    row_price_[row] += length;
    for (std::size_t j = 0; j < columns_; ++j)
      if (reached[j] && j != column) {
        row_price_[owner_[j]] += length - distance[j];
        column_price_[j] -= length - distance[j];
      }
    // Every column of the path goes to the row that leads to it.
    for (; before[column] != none; column = before[column]) owner_[column] = owner_[before[column]];
    owner_[column] = row;
  }

  /// The row of each column, or `none`.
  const std::vector<std::size_t>& owner() const { return owner_; }
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 private:
  const std::vector<double>& cost_;
  std::size_t columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<std::size_t> owner_;
};

}  // namespace

std::vector<int> optimal_assignment(const std::vector<double>& cost, int rows, int columns) {
  const auto r = static_cast<std::size_t>(rows), c = static_cast<std::size_t>(columns);
  if (rows < 0 || columns < 0 || cost.size() != r * c)
    throw std::invalid_argument("optimal_assignment: not rows * columns costs");
  double all = 1;
  for (const double x : cost)
    if (std::isfinite(x)) all += 2 * std::abs(x);
  // At least as many columns as rows.
  const bool turned = rows > columns;
  std::vector<double> kept(cost.size());
  for (std::size_t i = 0; i < r; ++i)
    for (std::size_t j = 0; j < c; ++j) {
      const double x = cost[i * c + j];
      kept[turned ? j * r + i : i * c + j] = std::isfinite(x) ? x : all;
    }
  const std::size_t few = turned ? c : r, many = turned ? r : c;
  Matching matching(kept, few, many);
  for (std::size_t i = 0; i < few; ++i) matching.insert(i);

  std::vector<int> column_of(r, -1);
  for (std::size_t j = 0; j < many; ++j) {
    const std::size_t i = matching.owner()[j];
    if (i == Matching::none) continue;
    if (turned)
      column_of[j] = static_cast<int>(i);
    else
      column_of[i] = static_cast<int>(j);
  }
  return column_of;
}

}  // namespace fluxformer::attention
