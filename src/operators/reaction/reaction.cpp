#include "operators/reaction/reaction.hpp"

#include <algorithm>

#include "operators/kernels/simd_arrays.hpp"
#include "operators/kernels/vector_math.hpp"
#include "operators/layer_norm.hpp"
#include "operators/reaction/reaction_work.hpp"

namespace fluxformer {
namespace {

/// x := g(x + bias), slope := g' and curvature := g'' where not null.
template <class T>
void activate(Activation activation, const T* bias, T* x, T* slope, T* curvature, std::size_t count) {
  switch (activation) {
    case Activation::gelu_erf:
      return curvature != nullptr ? gelu_erf_curvature(x, slope, curvature, count, bias)
                                  : gelu_erf(x, slope, count, bias);
    case Activation::gelu_tanh:
      return curvature != nullptr ? gelu_tanh_curvature(x, slope, curvature, count, bias)
                                  : gelu_tanh(x, slope, count, bias);
    case Activation::relu:
      for (std::size_t i = 0; i < count; ++i) x[i] += bias[i];
      if (slope != nullptr) {
        for (std::size_t i = 0; i < count; ++i) slope[i] = x[i] > 0 ? T(1) : T(0);
      }
      // A NaN stays one.
      for (std::size_t i = 0; i < count; ++i) x[i] = x[i] < 0 ? T(0) : x[i];
  }
}

}  // namespace

template <class T>
Reaction<T>::Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands)
    : context_(context),
      settings_(settings),
      width_(static_cast<std::size_t>(context.width)),
      hidden_(static_cast<std::size_t>(settings.hidden)),
      w_1_(operands),
      w_2_(operands) {
  // Inputs, hidden values and outputs of a block get half of a 1 MiB second-level cache, the weights the
  // rest. Measured (f = 4 d = 256): within 3 % of the best from 256 KiB on, 5 to 20 % slower below.
  constexpr std::size_t budget = 512 * 1024 / sizeof(T);
  // Where the weights are larger than the cache, a block must be large enough to be worth reading them again.
  const std::size_t fit = budget / (2 * width_ + hidden_);
  const std::size_t least = 2 * width_ * hidden_ > 2 * budget ? 1024 : 16;
  const std::size_t block = std::max(std::min<std::size_t>(fit / 16 * 16, 512), least);
  block_ = std::min(block, static_cast<std::size_t>(std::max(context.rows(), 1)));
}

template <class T>
void Reaction<T>::inner_input(const ReactionWeights<const T>& weights, const double* u, std::size_t rows,
                              T* normal) const {
  if (settings_.layer_norm) {
    layer_norm(u, width_, static_cast<int>(rows), context_.width, weights.eps, weights.gain, weights.bias,
               normal, width_);
  } else {
    round_to(u, rows * width_, normal);
  }
}

template <class T>
void Reaction<T>::set_maps(const ReactionWeights<const T>& weights) {
  w_1_.set(weights.w_1, hidden_, width_);
  w_2_.set(weights.w_2, width_, hidden_);
}

template <class T>
void Reaction<T>::hidden_values(const ReactionWeights<const T>& weights, std::size_t rows,
                                const Hidden& hidden) {
  w_1_.apply(rows, hidden.normal, hidden.value);
  const auto at = [](T* all, std::size_t first) { return all != nullptr ? all + first : nullptr; };
  for (std::size_t first = 0; first < rows * hidden_; first += hidden_)
    activate(settings_.activation, weights.b_1, hidden.value + first, at(hidden.slope, first),
             at(hidden.curvature, first), hidden_);
}

template <class T>
void Reaction<T>::add_block(const ReactionWeights<const T>& weights, const double* u, std::size_t rows,
                            const Hidden& hidden, double scale, T* result, const double* base, double* out) {
  inner_input(weights, u, rows, hidden.normal);
  hidden_values(weights, rows, hidden);
  w_2_.apply(rows, hidden.value, result);
  for (std::size_t first = 0; first < rows * width_; first += width_)
    simd::set_sum(scale * *weights.rho, result + first, weights.b_2, width_, base + first, out + first);
}

template <class T>
void Reaction<T>::add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) {
  const InPiece piece(Piece::reaction);
  count(1);
  set_maps(mine(weights));
  scratch_.reset(block_ * (2 * width_ + hidden_), 3);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at = first * width_;
    add_block(mine(weights), u + at, rows, {normal, value, nullptr}, scale, result, out + at, out + at);
  });
}

template <class T>
std::unique_ptr<TermTape> Reaction<T>::make_activations() const {
  return std::make_unique<ReactionActivations<T>>(static_cast<std::size_t>(context_.rows()), width_, hidden_,
                                                  Curvatures::none);
}

template <class T>
void Reaction<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                  const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(1);
  auto& keep = dynamic_cast<ReactionActivations<T>&>(kept);
  set_maps(mine(weights));
  scratch_.reset(block_ * width_, 1);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at = first * width_;
    add_block(mine(weights), u + at, rows, keep.at(first), scale, result, base + at, out + at);
  });
}

// J v = rho W_2 (g'(z) . (W_1 N'(u) v)),  z = W_1 N(u) + b_1
template <class T>
template <class SlopeOf>
void Reaction<T>::push_forward(const ReactionWeights<const T>& w, const double* u, const double* v,
                               double scale, const double* base, double* out, SlopeOf&& slope_of) {
  set_maps(w);
  T* inner = scratch_.take(block_ * width_);
  T* variation = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at = first * width_;
    const T* slope = slope_of(first, rows);
    if (settings_.layer_norm) {
      layer_norm_tangent(u + at, v + at, width_, static_cast<int>(rows), context_.width, w.eps, w.gain, inner,
                         width_);
    } else {
      round_to(v + at, rows * width_, inner);
    }
    w_1_.apply(rows, inner, variation);
    for (std::size_t i = 0; i < rows * hidden_; ++i) variation[i] *= slope[i];
    w_2_.apply(rows, variation, result);
    simd::set_sum(scale * *w.rho, result, rows * width_, base + at, out + at);
  });
}

template <class T>
void Reaction<T>::add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                              double scale, double* out) {
  const InPiece piece(Piece::reaction);
  count(2);
  const ReactionWeights<const T>& w = mine(weights);
  scratch_.reset(block_ * (3 * width_ + 3 * hidden_), 6);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* slope = scratch_.take(block_ * hidden_);
  push_forward(w, u, v, scale, out, out, [&](std::size_t first, std::size_t rows) {
    inner_input(w, u + first * width_, rows, normal);
    hidden_values(w, rows, {normal, value, slope});
    return slope;
  });
}

template <class T>
void Reaction<T>::set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                   double scale, const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(1);
  const auto& keep = dynamic_cast<const ReactionActivations<T>&>(kept);
  scratch_.reset(block_ * (2 * width_ + hidden_), 3);
  push_forward(mine(weights), u, v, scale, base, out,
               [&](std::size_t first, std::size_t) { return keep.at(first).slope; });
}

template class Reaction<float>;
template class Reaction<double>;

}  // namespace fluxformer
