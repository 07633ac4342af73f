#include "analysis/states/arrival_times.hpp"

#include <cmath>

namespace fluxformer::states {

void ArrivalTimes::update(double time, const std::vector<double>& distance) {
  for (std::size_t i = 0; i < distance.size(); ++i) {
    if (!(distance[i] <= threshold_))
      since_[i] = std::numeric_limits<double>::quiet_NaN();
    else if (std::isnan(since_[i]))
      since_[i] = time;
  }
}

}  // namespace fluxformer::states
