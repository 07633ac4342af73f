#include "drivers/clusters/course.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>

namespace fluxformer {

Course::Course(std::vector<Column> columns) : columns_(std::move(columns)) {
  for (const auto& one : columns_) width_ += one.numbers;
}

std::pair<const Course::Column*, Index> Course::column(const io::Variable& variable) const {
  Index first = 0;
  for (const auto& one : columns_) {
    if (one.variable.name == variable.name) return {&one, first};
    first += one.numbers;
  }
  throw std::logic_error(variable.name + ": not stored by time");
}

void Course::add(const Row& row) {
  if (row.size() != columns_.size()) throw std::logic_error("a row does not have each column once");
  const Index begin = count() * width_;
  rows_.resize(begin + width_, missing_value);
  std::set<const Column*> given;
  for (const auto& [variable, numbers] : row) {
    const auto [found, first] = column(variable);
    if (!given.insert(found).second) throw std::logic_error(variable.name + ": twice in a row");
    if (std::ssize(numbers) != found->numbers)
      throw std::logic_error(variable.name + ": not as many numbers as its column has");
    std::ranges::copy(numbers, rows_.begin() + begin + first);
  }
}

std::vector<double> Course::of(const io::Variable& variable) const {
  const auto [found, first] = column(variable);
  std::vector<double> all;
  for (Index row = 0; row < count(); ++row) {
    const auto begin = rows_.begin() + row * width_ + first;
    all.insert(all.end(), begin, begin + found->numbers);
  }
  return all;
}

double formed(std::span<const double> times, std::span<const double> number) {
  const auto first = std::ranges::find_if(number, [](double one) { return !std::isnan(one); });
  return first == number.end() ? missing_value : times[first - number.begin()];
}

std::string words_of_clusters(std::span<const double> times, std::span<const double> number) {
  std::ostringstream text;
  if (std::isnan(number.back()))
    text << "no clusters at t = " << times.back();
  else
    text << number.back() << (number.back() == 1 ? " cluster" : " clusters") << " at t = " << times.back()
         << ", the first at t = " << formed(times, number);
  return text.str();
}

Merges merges(std::span<const double> times, std::span<const double> number) {
  Merges found{std::vector<double>(listed_clusters, missing_value),
               std::vector<double>(listed_clusters, missing_value)};
  for (Index k = 0; k < listed_clusters; ++k) {
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
