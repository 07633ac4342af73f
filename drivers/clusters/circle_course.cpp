#include "drivers/clusters/circle_course.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "analysis/clusters/cluster_variables.hpp"

namespace fluxformer {

std::vector<std::pair<io::Variable, Index>> CircleCourse::columns() const {
  using namespace clusters::variables;
  return {{number, 1}, {components, 1},  {compact_share, 1}, {moving, 1},     {number_2, 1}, {number_1, 1},
          {energy, 1}, {dissipation, 1}, {moment, modes_},   {density, bins}, {mass, listed}};
}

Index CircleCourse::width() const {
  Index all = 0;
  for (const auto& [variable, numbers] : columns()) all += numbers;
  return all;
}

void CircleCourse::add(const CircleRow& row) {
  rows_.insert(rows_.end(), {row.number, row.components, row.compact_share, row.moving, row.sums.number_2,
                             row.sums.number_1, row.sums.energy, row.sums.dissipation});
  rows_.insert(rows_.end(), row.moments.begin(), row.moments.end());
  rows_.insert(rows_.end(), row.shares.begin(), row.shares.end());
  auto masses = row.masses;
  masses.resize(listed, 0.0);
  rows_.insert(rows_.end(), masses.begin(), masses.end());
}

std::vector<double> CircleCourse::of(const io::Variable& variable) const {
  Index first = 0;
  for (const auto& [column, numbers] : columns()) {
    if (column.name == variable.name) {
      std::vector<double> found;
      for (Index row = 0; row < count(); ++row) {
        const auto begin = rows_.begin() + row * width() + first;
        found.insert(found.end(), begin, begin + numbers);
      }
      return found;
    }
    first += numbers;
  }
  throw std::logic_error(variable.name + ": not stored by time");
}

Merges merges(std::span<const double> times, std::span<const double> number) {
  Merges found{std::vector<double>(CircleCourse::listed, missing_value),
               std::vector<double>(CircleCourse::listed, missing_value)};
  for (Index k = 0; k < CircleCourse::listed; ++k) {
    Index last = -1, next = -1;
    for (Index t = 0; t < std::ssize(number); ++t) {
      if (number[t] > static_cast<double>(k)) {  // k + 1 or more
        last = t;
        next = -1;
      } else if (next < 0 && !std::isnan(number[t])) {
        next = t;
      }
    }
    if (last < 0 || next < 0) continue;
    found.after[k] = times[last];
    found.by[k] = times[next];
  }
  return found;
}

double rate_of_growth(std::span<const double> times, std::span<const double> size, double least,
                      double most) {
  double times_sum = 0, sum = 0, products = 0, squares = 0;
  int count = 0;
  for (std::size_t k = 0; k < times.size() && size[k] < most; ++k)
    if (size[k] > least) {
      const double value = std::log(size[k]);
      times_sum += times[k], sum += value, products += times[k] * value, squares += times[k] * times[k];
      ++count;
    }
  if (count < 2) return missing_value;
  return (count * products - times_sum * sum) / (count * squares - times_sum * times_sum);
}

}  // namespace fluxformer
