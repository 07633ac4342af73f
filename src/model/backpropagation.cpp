#include "model/backpropagation.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer {

Backpropagation::Backpropagation(DepthModel& model, DepthCells depth, double speed)
    : model_(model),
      depth_(depth),
      step_(depth.spacing() / speed),
      states_(static_cast<std::size_t>(depth.cells)),
      tapes_(static_cast<std::size_t>(depth.cells)),
      next_(model.context().size()) {
  require_marchable(model.spec(), depth, speed);
  std::vector<DepthPoint> points;
  for (int cell = 1; cell <= depth.cells; ++cell) points.push_back(point(cell));
  model_.prepare(points);
}

void Backpropagation::forward(double* u, Keep keep, const RowVisitor& row) {
  const std::size_t size = model_.context().size();
  for (int cell = 1; cell <= depth_.cells; ++cell) {
    const auto i = static_cast<std::size_t>(cell - 1);
    if (keep == Keep::activations) {
      states_[i].assign(u, u + size);
      if (tapes_[i] == nullptr) tapes_[i] = model_.make_tape();
      model_.map_keeping(point(cell), step_, states_[i].data(), u, *tapes_[i]);
    } else {
      std::copy_n(u, size, next_.data());
      model_.add_map(point(cell), step_, 1.0, u, u, next_.data());
      std::copy_n(next_.data(), size, u);
    }
    if (row) row(cell, u);
  }
}

void Backpropagation::backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) {
  const std::size_t size = model_.context().size();
  for (int cell = depth_.cells; cell >= 1; --cell) {
    const auto i = static_cast<std::size_t>(cell - 1);
    std::copy_n(u_bar, size, next_.data());
    model_.map_adjoint(point(cell), step_, states_[i].data(), *tapes_[i], next_.data(), u_bar, gradient);
    if (row) row(cell - 1, states_[i].data(), u_bar);
  }
}

std::size_t Backpropagation::kept_bytes() const {
  std::size_t bytes = 0;
  for (const auto& state : states_) bytes += state.size() * sizeof(double);
  for (const auto& tape : tapes_)
    if (tape != nullptr) bytes += tape->bytes();
  return bytes;
}

}  // namespace fluxformer
