#include "model/backpropagation.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer {

Backpropagation::Backpropagation(DepthModel& model, DepthCells depth, double speed, DepthRange range)
    : model_(model),
      depth_(depth),
      range_(range),
      step_(depth.spacing() / speed),
      states_(range.count()),
      tapes_(range.count()),
      next_(model.context().size()) {
  require_marchable(model.spec(), depth, speed);
  // The weights of cell i are those at its entry, s = (i - 1) h, as in `shift`; they are interpolated once.
  std::vector<DepthPoint> points;
  for (int cell = range.first; cell <= range.last; ++cell) points.push_back(point(cell));
  model_.prepare(points);
}

void Backpropagation::forward(double* u, Keep keep, const RowVisitor& row) {
  const Index size = model_.context().size();
  if (keep == Keep::activations) return forward_keeping(u, row);
  for (int cell = range_.first; cell <= range_.last; ++cell) {
    // u_i = u_{i-1} + (G_i(u_{i-1}; h/c) - u_{i-1}): the map is given as an increment
    std::copy_n(u, size, next_.data());
    model_.add_map(point(cell), step_, 1.0, u, u, next_.data());
    std::copy_n(next_.data(), size, u);
    if (row) row(cell, u);
  }
}

void Backpropagation::forward_keeping(double* u, const RowVisitor& row) {
  const Index size = model_.context().size(), count = states_.size();
  // u_i = G_i(u_{i-1}; h/c): the input of every cell is kept, and what its terms need for the adjoint.
  states_.front().assign(u, u + size);
  for (Index i = 0; i < count; ++i) {
    const int cell = range_.first + i;
    double* to = u;
    if (i + 1 < count) {
      states_[i + 1].resize(size);
      to = states_[i + 1].data();
    }
    if (tapes_[i] == nullptr) tapes_[i] = model_.make_tape(Order::first);
    model_.map(point(cell), step_, states_[i].data(), to, tapes_[i].get());
    if (row) row(cell, to);
  }
}

void Backpropagation::backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) {
  const Index size = model_.context().size();
  // u_bar_{i-1} = (dG_i/du)^T u_bar_i and gradient += (dG_i/dtheta)^T u_bar_i, from the last cell to the
  // first; the two slabs take turns.
  double *from = u_bar, *to = next_.data();
  for (int cell = range_.last; cell >= range_.first; --cell) {
    const Index i = cell - range_.first;
    model_.pull(point(cell), step_, states_[i].data(), from, to, gradient, tapes_[i].get(), Order::first);
    if (row) row(cell - 1, states_[i].data(), to);
    std::swap(from, to);
  }
  // With an odd number of cells the result is in the other slab.
  if (from != u_bar) std::copy_n(from, size, u_bar);
}

std::size_t Backpropagation::kept_bytes() const {
  Index bytes = 0;
  for (const auto& state : states_) bytes += state.size() * sizeof(double);
  for (const auto& tape : tapes_)
    if (tape != nullptr) bytes += tape->bytes();
  return bytes;
}

}  // namespace fluxformer
