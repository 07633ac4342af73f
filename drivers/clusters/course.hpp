#pragma once

// The numbers that a study of moving tokens stores, time by time, and what follows from their course. The same on all ranks; not
// collective.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "base/statistics.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// A table of numbers: a row for each stored time so far, a column, of one or several numbers, for each variable.
class Course {
 public:
  /// A variable whose first axis are the times.
  struct Column {
    io::Variable variable;
    Index numbers = 1;  ///< at each time
  };
  /// The numbers of a time by their variables.
  using Row = std::vector<std::pair<io::Variable, std::vector<double>>>;

  /// No rows yet.
  explicit Course(std::vector<Column> columns);
  /// Rows so far, and numbers of each.
  Index count() const { return std::ssize(rows_) / width_; }
  Index width() const { return width_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// Adds the row of the next time, which has all columns. Throws std::logic_error for one that does not fit them.
  void add(const Row& row);
  /// Adds rows of NaN up to `count`.
  void fill(Index count) { rows_.resize(count * width_, missing_value); }
  /// The numbers of a column, [time][number]. Throws std::logic_error for a variable that is none.
  std::vector<double> of(const io::Variable& variable) const;
  /// All rows, as a checkpoint keeps them.
  const std::vector<double>& rows() const { return rows_; }
  void restore(std::vector<double> rows) { rows_ = std::move(rows); }

 private:
  /// The column of a variable, and its first number in a row.
  std::pair<const Column*, Index> column(const io::Variable& variable) const;

  std::vector<Column> columns_;
  Index width_ = 0;
  std::vector<double> rows_;
};

/// Clusters, and numbers of them, that are listed.
inline constexpr Index listed_clusters = 16;

/// The first time with clusters; NaN: none. `number` at the stored times: NaN where there are none.
double formed(std::span<const double> times, std::span<const double> number);
/// Clusters at the end and their beginning, in words: "3 clusters at t = 20, the first at t = 8".
std::string words_of_clusters(std::span<const double> times, std::span<const double> number);

/// When clusters become fewer for good, for each number k of them from 1 to listed_clusters; NaN where they do not.
struct Merges {
  std::vector<double> after;  ///< the last stored time with k or more
  std::vector<double> by;     ///< the next one with fewer
};
/// The merges of `number` clusters at the stored times; NaN where there are no clusters.
Merges merges(std::span<const double> times, std::span<const double> number);

/// The slope of log(size) over the times up to the first size from `most` on, where the size is above `least`; NaN without two of them.
double rate_of_growth(std::span<const double> times, std::span<const double> size, double least, double most);

}  // namespace fluxformer
