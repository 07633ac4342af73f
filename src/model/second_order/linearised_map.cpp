#include "model/second_order/linearised_map.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// The part of the value, for calls that leave the rest alone.
TermTape* value_of(const std::unique_ptr<TermTape>& tape) {
  return tape != nullptr ? &tape->value() : nullptr;
}

/// base, or `result` set to zero.
const double* residual_or_zero(bool residual, const double* base, double* result, Index size) {
  if (residual) return base;
  std::fill_n(result, size, 0.0);
  return result;
}

}  // namespace

LinearisedMap::LinearisedMap(const Parameters& parameters, const Parameters& direction,
                             const SlabContext& context)
    : spec_(parameters.spec),
      context_(context),
      weights_(parameters),
      weights_dot_(direction),
      terms_(parameters.spec, context, layer_),
      norm_(context),
      sub_layers_(terms_.compose(KappaRange(parameters).largest)),
      state_(context.size()),
      middle_(context.size()),
      sum_bar_(context.size()),
      other_(context.size()) {
  spec_.validate();
  if (context.dropout != nullptr) throw BadInput("Hessian products are not defined for dropout");
  // A term without a second derivative is refused here rather than in the first pass.
  for (const auto& sub : sub_layers_)
    for (auto* const term : sub.terms) (void)term->make_tape(Order::second);
}

void LinearisedMap::prepare(std::span<const DepthPoint> points) {
  weights_.prepare(points);
  weights_dot_.prepare(points);
}

void LinearisedMap::make_room(CellTape& tape, double h) {
  // Euler: one evaluation with scale = fraction h. Midpoint: half of it first, then all of it at the
  // midpoint.
  if (tape.sub_layers.size() == sub_layers_.size()) return;
  tape.sub_layers.resize(sub_layers_.size());
  for (Index j = 0; j < std::ssize(sub_layers_); ++j) {
    auto& mine = tape.sub_layers[j];
    mine.stages.resize(stages());
    for (auto& stage : mine.stages) {
      const bool half = stages() > 1 && &stage == &mine.stages.front();
      stage.scale = sub_layers_[j].fraction * h * (half ? 0.5 : 1.0);
      for (auto* const term : sub_layers_[j].terms) stage.parts.push_back(term->make_tape(Order::second));
    }
  }
}

void LinearisedMap::add_terms(const SubLayer<double>& sub, SubLayerStage& stage, const double* vector,
                              const double* base, double* result, const TermCall& apply) {
  for (Index k = 0; k < std::ssize(sub.terms); ++k) {
    // The first term reads the base, the others add to the result.
    apply(*sub.terms[k], stage, k, vector, base, result);
    base = result;
  }
}

// Euler: sum = x + step T(x).  Midpoint: m = x + step/2 T(x), sum = x + step T(m).
void LinearisedMap::push(const SubLayer<double>& sub, LinearisedSubLayer& tape, Slab SubLayerStage::*kept,
                         const double* x, double* sum, const TermCall& apply) {
  const double* from = x;
  for (auto& stage : tape.stages) {
    const bool last = &stage == &tape.stages.back();
    // u, or u_dot, of this evaluation is kept for the passes that follow.
    Slab& input = stage.*kept;
    input.assign(from, from + context_.size());
    double* const to = last ? sum : middle_.data();
    const double* const base = last ? residual_or_zero(spec_.residual, x, to, context_.size()) : x;
    add_terms(sub, stage, input.data(), base, to, apply);
    from = to;
  }
}

void LinearisedMap::pull(const SubLayer<double>& sub, LinearisedSubLayer& tape, const double* sum_bar,
                         double* x_bar, const TermCall& apply) {
  const Index size = context_.size();
  if (tape.stages.size() == 1) {
    const double* const base = residual_or_zero(spec_.residual, sum_bar, x_bar, size);
    return add_terms(sub, tape.stages[0], sum_bar, base, x_bar, apply);
  }
  // Midpoint: m_bar = step T'(m)^T sum_bar,  x_bar = sum_bar + m_bar + step/2 T'(x)^T m_bar.
  std::fill(middle_.begin(), middle_.end(), 0.0);
  add_terms(sub, tape.stages[1], sum_bar, middle_.data(), middle_.data(), apply);
  for (Index j = 0; j < size; ++j) x_bar[j] = middle_[j] + (spec_.residual ? sum_bar[j] : 0.0);
  add_terms(sub, tape.stages[0], middle_.data(), x_bar, x_bar, apply);
}

void LinearisedMap::pull_all(CellTape& tape, const double* w, double* u_bar, const NormAdjoint& norm,
                             const TermCall& apply) {
  // For each sub-layer, last to first: sum_bar = N'(sum)^T result_bar, then x_bar from sum_bar by the
  // transposed flow.
  const double* result_bar = w;
  for (Index j = std::ssize(sub_layers_); j-- > 0;) {
    const auto& sub = sub_layers_[j];
    auto& mine = tape.sub_layers[j];
    const double* sum_bar = result_bar;
    if (sub.after != After::nothing) {
      norm(sub, mine, result_bar, sum_bar_.data());
      sum_bar = sum_bar_.data();
    }
    // Two slabs take turns between the sub-layers; the first sub-layer writes to u_bar.
    double* const to = j == 0 ? u_bar : j % 2 == 1 ? state_.data() : other_.data();
    pull(sub, mine, sum_bar, to, apply);
    result_bar = to;
  }
}

void LinearisedMap::forward(const DepthPoint& at, double h, const double* u, double* v, CellTape& tape) {
  make_room(tape, h);
  // For each sub-layer sum = (residual) u + step T(u), or the midpoint rule, and v = N(sum); the argument of
  // every evaluation of T is kept.
  const auto theta = weights_.at(at);
  const double* from = u;
  for (Index j = 0; j < std::ssize(sub_layers_); ++j) {
    const auto& sub = sub_layers_[j];
    auto& mine = tape.sub_layers[j];
    double* const to = j + 1 == std::ssize(sub_layers_) ? v : j % 2 == 0 ? state_.data() : other_.data();
    const bool normalised = sub.after != After::nothing;
    if (normalised) mine.sum.resize(context_.size());
    push(sub, mine, &SubLayerStage::input, from, normalised ? mine.sum.data() : to,
         [&theta](auto& term, auto& stage, Index k, const double* x, const double* base, double* result) {
           term.apply(theta, x, {stage.scale, base, result}, stage.parts[k].get());
         });
    if (normalised) norm_.apply(sub.after, theta, mine.sum.data(), to);
    from = to;
  }
}

void LinearisedMap::backward(const DepthPoint& at, const double* w, double* u_bar, std::span<double> gradient,
                             CellTape& tape) {
  const auto theta = weights_.at(at);
  // u_bar = (dG/du)^T w, gradient += (dG/dtheta)^T w; the adjoint at every evaluation is kept for the tangent
  // of this pass.
  const auto bar = weights_.begin_gradient(at, gradient);
  const Index size = context_.size();
  pull_all(
      tape, w, u_bar,
      [&](const SubLayer<double>& sub, LinearisedSubLayer& mine, const double* result_bar, double* sum_bar) {
        mine.result_bar.assign(result_bar, result_bar + size);
        norm_.adjoint(sub.after, theta, mine.sum.data(), result_bar, sum_bar, &bar);
      },
      [&](auto& term, SubLayerStage& stage, Index k, const double* seed, const double* base, double* result) {
        // All terms of an evaluation have the same adjoint w.
        if (k == 0) stage.seed.assign(seed, seed + size);
        term.pull(theta, stage.input.data(), seed, {stage.scale, base, result}, &bar, stage.parts[k].get());
      });
  weights_.finish_gradient(at, gradient);
}

void LinearisedMap::tangent(const DepthPoint& at, const double* u_dot, double* v_dot, CellTape& tape) {
  // sum_dot = (residual) u_dot + step (T'(u) u_dot + (dT/dtheta) theta_dot), or the midpoint rule
  // v_dot = N'(sum) sum_dot + (dN/dtheta) theta_dot
  const auto theta = weights_.at(at);
  const auto theta_dot = weights_dot_.at(at);
  const double* from = u_dot;
  for (Index j = 0; j < std::ssize(sub_layers_); ++j) {
    const auto& sub = sub_layers_[j];
    auto& mine = tape.sub_layers[j];
    double* const to = j + 1 == std::ssize(sub_layers_) ? v_dot : j % 2 == 0 ? state_.data() : other_.data();
    const bool normalised = sub.after != After::nothing;
    if (normalised) mine.sum_dot.resize(context_.size());
    push(sub, mine, &SubLayerStage::input_dot, from, normalised ? mine.sum_dot.data() : to,
         [&](auto& term, auto& stage, Index k, const double* x_dot, const double* base, double* result) {
           term.push(theta, &theta_dot, {stage.input.data(), x_dot}, {stage.scale, base, result},
                     stage.parts[k].get());
         });
    if (normalised) norm_.full_tangent(sub.after, theta, theta_dot, mine.sum.data(), mine.sum_dot.data(), to);
    from = to;
  }
}

void LinearisedMap::backward_tangent(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                                     std::span<double> gradient_dot, CellTape& tape) {
  const auto theta = weights_.at(at);
  const auto theta_dot = weights_dot_.at(at);
  // d/de of (T'(u; theta)^T w, (dT/dtheta)^T w) along (u_dot, theta_dot, w_dot) for every evaluation, and the
  // same for N (docs/model.md, section 9)
  const auto bar_dot = weights_.begin_gradient(at, gradient_dot);
  pull_all(
      tape, w_dot, u_bar_dot,
      [&](const SubLayer<double>& sub, LinearisedSubLayer& mine, const double* result_bar_dot,
          double* sum_bar_dot) {
        norm_.adjoint_tangent(sub.after, theta, theta_dot, mine.sum.data(), mine.sum_dot.data(),
                              mine.result_bar.data(), result_bar_dot, sum_bar_dot, bar_dot);
      },
      [&](auto& term, SubLayerStage& stage, Index k, const double* seed_dot, const double* base,
          double* result) {
        term.pull_along(theta, theta_dot, {stage.input.data(), stage.input_dot.data()},
                        {stage.seed.data(), seed_dot}, {stage.scale, base, result}, bar_dot,
                        stage.parts[k].get());
      });
  weights_.finish_gradient(at, gradient_dot);
}

void LinearisedMap::gauss_newton(const DepthPoint& at, const double* w_dot, double* u_bar_dot,
                                 std::span<double> gradient_dot, CellTape& tape) {
  const auto theta = weights_.at(at);
  // T'(u)^T w_dot and (dT/dtheta)^T w_dot alone: u, theta and w stay as they are.
  const auto bar_dot = weights_.begin_gradient(at, gradient_dot);
  pull_all(
      tape, w_dot, u_bar_dot,
      [&](const SubLayer<double>& sub, LinearisedSubLayer& mine, const double* result_bar_dot,
          double* sum_bar_dot) {
        norm_.adjoint(sub.after, theta, mine.sum.data(), result_bar_dot, sum_bar_dot, &bar_dot);
      },
      [&](auto& term, SubLayerStage& stage, Index k, const double* seed_dot, const double* base,
          double* result) {
        term.pull(theta, stage.input.data(), seed_dot, {stage.scale, base, result}, &bar_dot,
                  value_of(stage.parts[k]));
      });
  weights_.finish_gradient(at, gradient_dot);
}

std::size_t CellTape::bytes() const {
  Index numbers = 0, total = 0;
  for (const auto& sub : sub_layers) {
    numbers += sub.sum.capacity() + sub.sum_dot.capacity() + sub.result_bar.capacity();
    for (const auto& stage : sub.stages) {
      numbers += stage.input.capacity() + stage.seed.capacity() + stage.input_dot.capacity();
      for (const auto& part : stage.parts) total += part != nullptr ? part->bytes() : 0;
    }
  }
  return total + numbers * sizeof(double);
}

}  // namespace fluxformer
