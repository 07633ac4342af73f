#include "training/divergence.hpp"

#include <algorithm>

namespace fluxformer {

long diverged_since(double limit, const std::vector<double>& loss, long per_epoch) {
  long epoch = static_cast<long>(loss.size()) / per_epoch;
  for (; epoch > 0; --epoch) {
    const auto end = loss.begin() + epoch * per_epoch;
    const auto above = std::count_if(end - per_epoch, end, [&](double one) { return one > limit; });
    if (2 * above <= per_epoch) break;
  }
  return epoch;
}

}  // namespace fluxformer
