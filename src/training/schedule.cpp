#include "training/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace fluxformer {

double Schedule::rate(long step) const {
  if (step < warm_up) return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (decay == Decay::cosine) {
    const double left = static_cast<double>(std::max(1L, steps - warm_up));
    const double part = std::min(1.0, static_cast<double>(step - warm_up) / left);
    return last + (peak - last) * (1 + std::cos(std::numbers::pi * part)) / 2;
  }
  if (decay == Decay::steps) {
    const double part = static_cast<double>(step) / static_cast<double>(steps);
    return peak * std::pow(factor, static_cast<double>(std::count_if(at.begin(), at.end(),
                                                                     [&](double x) { return part >= x; })));
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
