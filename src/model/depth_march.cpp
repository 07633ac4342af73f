#include "model/depth_march.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer {

ParameterShare share_of(const ModelSpec& spec, const DepthCells& depth, DepthRange range) {
  // Schemes read the weights at the entries or at the exits of cells: from s_{i-1} at the entry of the
  // first cell i to s_j at the exit of the last cell j.
  return {.first_knot = knots_at(spec, depth.entry(range.first)).lower,
          .last_knot = knots_at(spec, depth.exit(range.last)).upper,
          .embedding = range.first == 1,
          .head = range.last == depth.cells};
}

void require_marchable(const ModelSpec& spec, const DepthCells& depth, double speed) {
  if (!(speed > 0)) throw BadInput("equation.c must be > 0 to march through depth");
  if (spec.variation == DepthVariation::constant)
    static_cast<void>(depth.layer_rows("when every layer has weights of its own"));
  // These models are defined for h/c = 1 only (docs/model.md, section 2).
  const bool step_is_one = depth.equal() && depth.length(1) / speed == 1;
  if ((spec.norm == Norm::post || !spec.residual) && !step_is_one)
    throw BadInput((depth.equal() ? "mesh.cells = " + std::to_string(depth.cells) : "mesh.edges") +
                   ": depth.norm = post and depth.residual = false need one cell per layer (mesh.layers = " +
                   std::to_string(depth.layers) + ") and equation.c = 1");
}

Backpropagation::Backpropagation(DepthModel& model, const DepthCells& depth, double speed, DepthRange range)
    : model_(model),
      depth_(depth),
      range_(range),
      speed_(speed),
      states_(range.count()),
      tapes_(range.count()),
      next_(model.context().size()) {
  require_marchable(model.spec(), depth_, speed);
  // The weights of cell i are those at its entry, s_{i-1}, as in `shift`; they are interpolated once.
  std::vector<DepthPoint> points;
  for (int cell = range.first; cell <= range.last; ++cell) points.push_back(depth_.entry(cell));
  model_.prepare(points);
}

void Backpropagation::forward(double* u, Keep keep, const RowVisitor& row) {
  const Index size = model_.context().size();
  if (keep != Keep::nothing)
    return forward_keeping(u, keep == Keep::activations ? Order::first : Order::second, row);
  // The two slabs take turns.
  double *from = u, *to = next_.data();
  for (int cell = range_.first; cell <= range_.last; ++cell) {
    model_.map(depth_.entry(cell), step(cell), from, to, nullptr);
    if (edit_) edit_(cell, to);
    if (row) row(cell, to);
    std::swap(from, to);
  }
  if (from != u) std::copy_n(from, size, u);
}

void Backpropagation::forward_keeping(double* u, Order upto, const RowVisitor& row) {
  const Index size = model_.context().size(), count = states_.size();
  if (upto != order_) {
    for (auto& tape : tapes_) tape.reset();
    tangents_.clear();
    order_ = upto;
  }
  // u_i = G_i(u_{i-1}; h_i/c): the input of every cell is kept, and what its terms need for the adjoint.
  states_.front().assign(u, u + size);
  for (Index i = 0; i < count; ++i) {
    const int cell = range_.first + i;
    double* to = u;
    if (i + 1 < count) {
      states_[i + 1].resize(size);
      to = states_[i + 1].data();
    }
    if (tapes_[i] == nullptr) tapes_[i] = model_.make_tape(order_);
    model_.map(depth_.entry(cell), step(cell), states_[i].data(), to, tapes_[i].get());
    if (edit_) edit_(cell, to);
    if (row) row(cell, to);
  }
}

template <class Pull>
void Backpropagation::march_back(double* from, Pull&& pull) {
  double *const result = from, *to = next_.data();
  for (int cell = range_.last; cell >= range_.first; --cell) {
    pull(cell, cell - range_.first, from, to);
    std::swap(from, to);
  }
  // With an odd number of cells the result is in the other slab.
  if (from != result) std::copy_n(from, model_.context().size(), result);
}

void Backpropagation::backward(double* u_bar, std::span<double> gradient, const RowAdjoint& row) {
  // u_bar_{i-1} = (dG_i/du)^T u_bar_i and gradient += (dG_i/dtheta)^T u_bar_i
  march_back(u_bar, [&](int cell, Index i, const double* from, double* to) {
    model_.pull(depth_.entry(cell), step(cell), states_[i].data(), from, to, gradient, tapes_[i].get(),
                order_);
    if (row) row(cell - 1, states_[i].data(), to);
  });
}

void Backpropagation::pull(double* w_dot, std::span<double> gradient, const RowEdit& row) {
  march_back(w_dot, [&](int cell, Index i, const double* from, double* to) {
    model_.pull(depth_.entry(cell), step(cell), states_[i].data(), from, to, gradient, tapes_[i].get(),
                Order::first);
    if (row) row(cell - 1, to);
  });
}

void Backpropagation::push(double* u_dot, std::span<const double> direction, const RowEdit& row) {
  const Index size = model_.context().size(), count = states_.size();
  const bool keeps = order_ == Order::second && !direction.empty();
  if (keeps) tangents_.resize(count);
  double *from = u_dot, *to = next_.data();
  for (Index i = 0; i < count; ++i) {
    const int cell = range_.first + i;
    if (keeps) tangents_[i].assign(from, from + size);
    model_.push(depth_.entry(cell), step(cell), {states_[i].data(), from}, direction, to, tapes_[i].get());
    if (row) row(cell, to);
    std::swap(from, to);
  }
  if (from != u_dot) std::copy_n(from, size, u_dot);
}

void Backpropagation::pull_along(double* w_dot, std::span<const double> direction,
                                 std::span<double> gradient_dot, const RowEdit& row) {
  // w_dot_{i-1} = d/de (dG_i/du)^T w_i and gradient_dot += d/de (dG_i/dtheta)^T w_i along (u_dot_{i-1},
  // direction, w_dot_i)
  march_back(w_dot, [&](int cell, Index i, const double* from, double* to) {
    model_.pull_along(depth_.entry(cell), step(cell), {states_[i].data(), tangents_[i].data()}, from,
                      direction, to, gradient_dot, *tapes_[i]);
    if (row) row(cell - 1, to);
  });
}

std::size_t Backpropagation::kept_bytes() const {
  Index bytes = 0;
  for (const auto* slabs : {&states_, &tangents_})
    for (const auto& slab : *slabs) bytes += slab.size() * sizeof(double);
  for (const auto& tape : tapes_)
    if (tape != nullptr) bytes += tape->bytes();
  return bytes;
}

}  // namespace fluxformer
