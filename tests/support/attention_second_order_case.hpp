#pragma once

// Attention linearised at a point, on any split of the line; vectors are global on every rank.

#include "tests/support/attention_case.hpp"
#include "tests/support/reference_attention_along.hpp"

namespace fluxformer::test {

using reference::AttentionPoint;
using reference::AttentionSweep;

/// A seeded point; the weights of a direction have no reason to be near those of a model, but may be.
inline AttentionPoint random_attention_point(const reference::WholeLine& line, const AttentionLayout& layout,
                                             unsigned seed) {
  const auto count = static_cast<std::size_t>(line.tokens * line.samples * line.width);
  return {AttentionParameters(layout, seed).flat, random_vector(count, seed + 1, 1.2, 0.3),
          random_vector(count, seed + 2)};
}
/// The same for all arrays, of heads that share the width.
inline AttentionPoint random_attention_point(const reference::WholeLine& line, unsigned seed) {
  return random_attention_point(line, AttentionLayout(line.width, {}), seed);
}

/// Calls are collective over the line of `split`.
template <class T>
class LinearisedAttention {
 public:
  LinearisedAttention(SplitAttention<T>& split, const AttentionPoint& at, double scale = 1)
      : split_(split),
        layout_(split.layout()),
        weights_(rounded_to<T>(at.weights)),
        alpha_(at.weights.back()),
        u_(split.mine(at.u)),
        w_(split.mine(at.w)),
        scale_(scale),
        nothing_(u_.size(), 0.0),
        tape_(split.term().make_tape(Order::second)) {
    std::vector<double> out(u_.size(), 7.0), u_bar(u_.size(), 7.0),
        sums(weights_.size(), 0.0);  // overwritten
    const auto bars = layout_.view<double>(sums.data(), &sums.back());
    split.term().apply(weights(), u_.data(), {scale, nothing_.data(), out.data()}, tape_.get());
    split.term().pull(weights(), u_.data(), w_.data(), {scale, nothing_.data(), u_bar.data()}, &bars,
                      tape_.get());
    value = gathered(out, u_bar, sums);
  }
  /// The variation of the sweep; of its output alone and J^T w' for products with the Gauss-Newton matrix.
  AttentionSweep along(const AttentionPoint& direction) { return product(direction, Kind::hessian); }
  AttentionSweep gauss_newton(const AttentionPoint& direction) {
    return product(direction, Kind::gauss_newton);
  }
  std::size_t bytes() const { return tape_->bytes(); }

  AttentionSweep value;

 private:
  enum class Kind { hessian, gauss_newton };
  LayerWeights<const T> weights() const { return layout_.view<const T>(weights_.data(), &alpha_); }
  AttentionSweep gathered(const std::vector<double>& out, const std::vector<double>& u_bar,
                          const std::vector<double>& sums) const {
    return {split_.everyones(out), split_.everyones(u_bar), sum_over(split_.line().comm(), sums)};
  }
  AttentionSweep product(const AttentionPoint& direction, Kind kind) {
    const auto flat = rounded_to<T>(direction.weights);
    const auto weights_dot = layout_.view<const T>(flat.data(), &direction.weights.back());
    const auto u_dot = split_.mine(direction.u), w_dot = split_.mine(direction.w);
    std::vector<double> out(u_.size(), 7.0), u_bar(u_.size(), 7.0), sums(flat.size(), 0.0);
    const auto bars = layout_.view<double>(sums.data(), &sums.back());
    const fluxformer::Point at{u_.data(), u_dot.data()};
    const Sum u_bar_dot{scale_, nothing_.data(), u_bar.data()};
    split_.term().push(weights(), &weights_dot, at, {scale_, nothing_.data(), out.data()}, tape_.get());
    if (kind == Kind::hessian)
      split_.term().pull_along(weights(), weights_dot, at, {w_.data(), w_dot.data()}, u_bar_dot, bars,
                               tape_.get());
    else
      split_.term().pull(weights(), u_.data(), w_dot.data(), u_bar_dot, &bars, &tape_->value());
    return gathered(out, u_bar, sums);
  }

  SplitAttention<T>& split_;
  const AttentionLayout& layout_;
  std::vector<T> weights_;
  double alpha_;
  std::vector<double> u_, w_;
  double scale_;
  std::vector<double> nothing_;
  std::unique_ptr<TermTape> tape_;
};

}  // namespace fluxformer::test
