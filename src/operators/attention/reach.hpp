#pragma once

// The keys that a query of attention sees.

#include <algorithm>
#include <limits>

#include "base/index.hpp"

namespace fluxformer {

/// The keys y with first <= y < end.
struct KeyRange {
  Index first = 0, end = 0;
  Index count() const { return end - first; }
};

/// The keys y that a query x may see, by global index: x - behind <= y <= x + ahead.
struct Reach {
  static constexpr Index all = std::numeric_limits<int>::max();  ///< more than any line has
  Index behind = all, ahead = all;

  /// The keys that query x sees of a line whose first n tokens are real; perhaps none.
  KeyRange keys(Index x, Index n) const {
    const Index first = std::max(x - behind, Index{0});
    return {first, std::max(std::min(x + ahead + 1, n), first)};
  }
  /// The same on lines of n tokens, with nothing that goes beyond them: equal if the same keys are seen there.
  Reach on_lines_of(Index n) const { return {std::min(behind, n - 1), std::min(ahead, n - 1)}; }
  bool operator==(const Reach&) const = default;
};

/// The reach of a token through a window (AttentionWeights::window), or without one (0).
inline Reach reach_of(bool causal, int window) {
  const Index all = Reach::all;
  if (causal) return {.behind = window > 0 ? window - 1 : all, .ahead = 0};
  return {.behind = window > 0 ? window : all, .ahead = window > 0 ? window : all};
}

}  // namespace fluxformer
