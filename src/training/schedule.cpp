#include "training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace fluxformer {

double Schedule::rate(long step) const {
  // Linear warm-up, which reaches the peak in its last step.
  if (step < warm_up) return peak * (step + 1) / warm_up;
  if (decay == Decay::cosine) {
    // From the peak to `last` along half a period of the cosine; p = 0 right after the warm-up.
    const double left = std::max(1L, steps - warm_up);
    const double part = std::min(1.0, (step - warm_up) / left);
    return last + (peak - last) * (1 + std::cos(std::numbers::pi * part)) / 2;
  }
  if (decay == Decay::steps) {
    const double part = static_cast<double>(step) / steps;
    // The rate takes one factor for each of the shares that are completed.
    const auto passed = std::count_if(at.begin(), at.end(), [&](double x) { return part >= x; });
    return peak * std::pow(factor, passed);
  }
  return peak;
}

Decay decay_named(const std::string& word) {
  if (word == "constant") return Decay::constant;
  if (word == "cosine") return Decay::cosine;
  if (word == "steps") return Decay::steps;
  throw BadInput("train.schedule = " + word + ": constant, cosine or steps");
}

}  // namespace fluxformer
