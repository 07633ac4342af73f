#pragma once

// How a number that a model gives changes on finer and finer depth cells, and its limit: its value for the
// equation itself. Source: docs/model.md section 12.

#include <span>

namespace fluxformer {

/// A sequence of values on M, 2 M, 4 M, ... depth cells. The error of a method of order p is C h^p, so that
/// each difference of successive values is 2^p times the next.
struct DepthLimit {
  /// log2 of the ratio of the last two differences. NaN where they differ in sign or are 0, and for fewer than
  /// three values.
  double order = 0;
  /// True if that is the order of the method within a quarter: only then are the cells so fine that the limit
  /// can be extrapolated.
  bool asymptotic = false;
  /// last + (last - the one before) / (2^p - 1) if `asymptotic`, else the last value.
  double value = 0;
  /// How far the first value may be from the limit: |first - limit| if `asymptotic`, else the sum of |first -
  /// last| and of the last difference, which is the most that is still to come from order 1 on.
  double distance = 0;
};

/// The limit of these values, by a method of order `order`. Throws std::invalid_argument without values.
DepthLimit depth_limit(std::span<const double> values, int order);

}  // namespace fluxformer
