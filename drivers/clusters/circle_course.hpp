#pragma once

// What `clusters_circle` stores of tokens or a density on the circle, time by time. The same on all ranks; not collective.

#include <span>
#include <utility>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"
#include "io/variable.hpp"

namespace fluxformer {

/// The numbers that are stored of one time.
struct CircleRow {
  clusters::SoftNumbers sums = {};
  std::vector<double> moments = {};  ///< |M_1|, |M_2|, ...
  std::vector<double> shares = {};   ///< of the tokens in each bin of angles
  // Of tokens; NaN, or empty, of a density:
  double moving = missing_value;  ///< tokens that move, each for those that it stands for
  double components = missing_value, compact_share = missing_value;
  double number = missing_value;    ///< of components, if they count as clusters
  std::vector<double> masses = {};  ///< of the clusters, the largest first
};

/// The rows of all stored times so far.
class CircleCourse {
 public:
  static constexpr Index bins = 180;   ///< of angles
  static constexpr Index listed = 16;  ///< clusters, and numbers of them, that are listed

  explicit CircleCourse(Index modes) : modes_(modes) {}
  /// Rows so far, and numbers of each.
  Index count() const { return std::ssize(rows_) / width(); }
  Index width() const;
  void add(const CircleRow& row);
  /// Adds rows of NaN up to `count`.
  void fill(Index count) { rows_.resize(count * width(), missing_value); }
  /// The numbers of a variable that has the times as its first axis.
  std::vector<double> of(const io::Variable& variable) const;
  /// All rows, as a checkpoint keeps them.
  const std::vector<double>& rows() const { return rows_; }
  void restore(std::vector<double> rows) { rows_ = std::move(rows); }

 private:
  /// The variables of a row, and how many numbers each has.
  std::vector<std::pair<io::Variable, Index>> columns() const;

  Index modes_;
  std::vector<double> rows_;
};

/// When clusters become fewer for good, for each number k of them from 1 to CircleCourse::listed; NaN where they do not.
struct Merges {
  std::vector<double> after;  ///< the last stored time with k or more
  std::vector<double> by;     ///< the next one with fewer
};
/// The merges of `number` clusters at the stored times; NaN where there are no clusters.
Merges merges(std::span<const double> times, std::span<const double> number);

/// The slope of log(size) over the times up to the first size from `most` on, where the size is above `least`; NaN without two of them.
double rate_of_growth(std::span<const double> times, std::span<const double> size, double least, double most);

}  // namespace fluxformer
