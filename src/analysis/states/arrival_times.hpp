#pragma once

// When a front arrives at each depth: after that the state stays close to the steady one.

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace fluxformer::states {

/// First times after which the distance |u - u*| / |u*| of each row (DepthMeasures::distance) stays at or
/// below the threshold; NaN: not arrived. Not collective: the same on all ranks.
class ArrivalTimes {
 public:
  /// `rows`: depth cells; `threshold`: of the relative distance.
  ArrivalTimes(std::size_t rows, double threshold)
      : threshold_(threshold), since_(rows, std::numeric_limits<double>::quiet_NaN()) {}
  /// Adds the distances at a later time.
  void update(double time, const std::vector<double>& distance);
  const std::vector<double>& times() const { return since_; }
  /// Continues from the result of `times`.
  void restore(std::vector<double> times) { since_ = std::move(times); }

 private:
  double threshold_;
  std::vector<double> since_;
};

}  // namespace fluxformer::states
