#include "analysis/derivatives/probe_jacobian.hpp"

#include <algorithm>

namespace fluxformer::derivatives {

ProbeJacobian::ProbeJacobian(ModelProbe& probe)
    : probe_(probe), states_(static_cast<std::size_t>(probe.depths())) {}

void ProbeJacobian::keep(int row, const double* u) {
  states_[row].assign(u, u + probe_.counted().size());
}

SlabMap ProbeJacobian::derivative(int from, int to) {
  return [this, from, to](const double* v, double* out) {
    next_.assign(v, v + probe_.counted().size());
    for (int row = from; row < to; ++row) {
      probe_.tangent(row, states_[row].data(), next_.data(), out);
      std::copy_n(out, next_.size(), next_.begin());
    }
    std::copy(next_.begin(), next_.end(), out);
  };
}

SlabMap ProbeJacobian::transposed(int from, int to) {
  return [this, from, to](const double* w, double* out) {
    next_.assign(w, w + probe_.counted().size());
    for (int row = to - 1; row >= from; --row) {
      probe_.transposed(row, states_[row].data(), next_.data(), out);
      std::copy_n(out, next_.size(), next_.begin());
    }
    std::copy(next_.begin(), next_.end(), out);
  };
}

}  // namespace fluxformer::derivatives
