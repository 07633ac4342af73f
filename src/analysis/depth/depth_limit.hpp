#pragma once

// How a number that a model gives changes on finer and finer depth cells, and its limit: its value for the
// equation itself. Source: docs/model.md section 12.

#include <optional>
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
  /// The largest distance of the first value from the others, and from the limit if `asymptotic`; infinite if
  /// one is not finite.
  double seen = 0;
  /// `seen` and, unless `asymptotic`, what may still be to come: the rest of a geometric series with the ratio
  /// of the last two differences, but at most ten times the last one. An estimate, no bound.
  double distance = 0;

  /// Whether the first value stays this close to all of the others and to the limit; std::nullopt if it does to
  /// those that are there, and the limit is not known well enough.
  std::optional<bool> within(double tolerance) const {
    if (!(seen < tolerance)) return false;
    return distance < tolerance ? std::optional(true) : std::nullopt;
  }
};

/// The limit of these values, by a method of order `order`. Throws std::invalid_argument without values.
DepthLimit depth_limit(std::span<const double> values, int order);

}  // namespace fluxformer
