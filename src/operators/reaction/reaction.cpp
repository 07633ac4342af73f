#include "operators/reaction/reaction.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/vector_math.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

// With z = W_1 N(u) + b_1 and a = g(z), a . b for products number by number, and _bar for adjoints:
//
//   value     R(u) = W_2 a + b_2
//   tangent   J v = W_2 (g'(z) . (W_1 N'(u) v))
//
// The adjoint of rho R, where sums over rows are taken in T and added to the gradient once:
//
//   a_bar = W_2^T w                          z_bar = a_bar . g'(z)
//   u_bar   += rho N'(u)^T W_1^T z_bar
//   W_1_bar += rho sum_rows z_bar N(u)^T     b_1_bar += rho sum_rows z_bar
//   W_2_bar += rho G                         b_2_bar += rho B
//   rho_bar += <W_2, G> + <b_2, B>           G = sum_rows w a^T,   B = sum_rows w
//
// Along a direction (_dot) of the weights, u and w, with rho moved into the outer weights: W = rho W_2, b =
// rho b_2, W_dot = rho W_2_dot + rho_dot W_2 and so on, a_bar = W^T w:
//
//   z_dot = W_1 N_dot + W_1_dot N + b_1_dot            a_dot = g'(z) . z_dot
//   t     = W a_dot + W_dot a + b_dot                  the tangent of rho R
//
//   a_bar_dot   = W^T w_dot + W_dot^T w                z_bar_dot = a_bar_dot . g'(z) + a_bar . g''(z) . z_dot
//   N_bar_dot   = W_1^T z_bar_dot + W_1_dot^T z_bar
//   W_1_bar_dot = sum_rows z_bar_dot N^T + z_bar N_dot^T   b_1_bar_dot = sum_rows z_bar_dot
//   W_2_bar_dot = rho G_dot + rho_dot G                b_2_bar_dot = rho B_dot + rho_dot B
//   rho_bar_dot = <W_2, G_dot> + <W_2_dot, G> + <b_2, B_dot> + <b_2_dot, B>
//   G_dot       = sum_rows w_dot a^T + w a_dot^T       B_dot = sum_rows w_dot
//
// Products: 2 in the value, 4 in its adjoint, twice as many in their tangents.

/// Arrays of a block of rows: N(u) [row][width], g(z), g'(z) and g''(z) [row][hidden]. Slopes and curvatures
/// may be null: not wanted, or no curvature.
template <class T>
struct Reaction<T>::Hidden {
  T *normal = nullptr, *value = nullptr, *slope = nullptr, *curvature = nullptr;
};

/// Tape of the value: N(u), a, g'(z) and perhaps g''(z) of all rows of the slab.
template <class T>
class Reaction<T>::ValueTape final : public TermTape {
 public:
  /// Room for rows * (width + 2 or, with curvatures, 3 hidden) numbers.
  ValueTape(Index rows, Index width, Index hidden, bool curvatures)
      : numbers_(rows * (width + (curvatures ? 3 : 2) * hidden)), width_(width), hidden_(hidden) {
    memory_.reset(numbers_, 4);
    all_.normal = memory_.take(rows * width);
    all_.value = memory_.take(rows * hidden);
    all_.slope = memory_.take(rows * hidden);
    if (curvatures) all_.curvature = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }
  /// The hidden values from this row on.
  Hidden at(Index row) const {
    return {all_.normal + row * width_, all_.value + row * hidden_, all_.slope + row * hidden_,
            all_.curvature != nullptr ? all_.curvature + row * hidden_ : nullptr};
  }

 private:
  Index numbers_, width_, hidden_;
  Scratch<T> memory_;
  Hidden all_;
};

/// Tape of second order: that of the value, and what pull (of w) and push leave for pull_along.
template <class T>
class Reaction<T>::SecondOrderTape final : public TermTape {
 public:
  /// Room for `rows` rows; the members below hold no values yet.
  SecondOrderTape(Index rows, Index width, Index hidden, bool curvatures)
      : value_(rows, width, hidden, curvatures),
        numbers_(2 * rows * (width + hidden) + width * (hidden + 1)) {
    memory_.reset(numbers_, 6);
    a_bar = memory_.take(rows * hidden);
    normal_bar = memory_.take(rows * width);
    w_2 = memory_.take(width * hidden);
    b_2 = memory_.take(width);
    normal_dot = memory_.take(rows * width);
    z_dot = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return value_.bytes() + numbers_ * sizeof(T); }
  TermTape& value() override { return value_; }

  T* a_bar;       ///< rho W_2^T w [row][hidden]
  T* normal_bar;  ///< rho W_1^T z_bar [row][width]
  T* w_2;         ///< G = sum_rows w a^T [width][hidden]
  T* b_2;         ///< B = sum_rows w [width]
  T* normal_dot;  ///< N_dot [row][width]
  T* z_dot;       ///< [row][hidden]

 private:
  ValueTape value_;
  Index numbers_;
  Scratch<T> memory_;
};

namespace {

/// out[r] := row, for every row r.
template <class T>
void repeat_row(const T* row, Index rows, Index width, T* out) {
  for (Index r = 0; r < rows; ++r) std::copy_n(row, width, out + r * width);
}

/// y := x in the arithmetic T.
template <class T>
void round_to(const double* x, Index count, T* y) {
  for (Index i = 0; i < count; ++i) y[i] = static_cast<T>(x[i]);
}

/// y := factor * x
template <class T>
void scaled(double factor, const T* __restrict x, Index count, T* __restrict y) {
  for (Index i = 0; i < count; ++i) y[i] = static_cast<T>(factor) * x[i];
}

/// x := g(x + bias), slope := g' and curvature := g'' where not null.
template <class T>
void activate(Activation activation, const T* bias, T* x, T* slope, T* curvature, Index count) {
  switch (activation) {
    case Activation::gelu_erf:
      return curvature != nullptr ? gelu_erf_curvature(x, slope, curvature, count, bias)
                                  : gelu_erf(x, slope, count, bias);
    case Activation::gelu_tanh:
      return curvature != nullptr ? gelu_tanh_curvature(x, slope, curvature, count, bias)
                                  : gelu_tanh(x, slope, count, bias);
    case Activation::silu:
      for (Index i = 0; i < count; ++i) {
        // sigma(z) = 1 / (1 + e^-z), g = z sigma, g' = sigma (1 + z (1 - sigma)),
        // g'' = sigma (1 - sigma) (2 + z (1 - 2 sigma))
        const T z = x[i] + bias[i], sigma = T(1) / (T(1) + std::exp(-z));
        x[i] = z * sigma;
        if (slope != nullptr) slope[i] = sigma * (1 + z * (1 - sigma));
        if (curvature != nullptr) curvature[i] = sigma * (1 - sigma) * (2 + z * (1 - 2 * sigma));
      }
      return;
    case Activation::relu:
      for (Index i = 0; i < count; ++i) x[i] += bias[i];
      if (slope != nullptr) {
        for (Index i = 0; i < count; ++i) slope[i] = x[i] > 0 ? T(1) : T(0);
      }
      // A NaN stays one.
      for (Index i = 0; i < count; ++i) x[i] = x[i] < 0 ? T(0) : x[i];
  }
}

/// x *= factor, and sums += the rows of the result.
template <class T>
void multiply_and_add_rows(const T* __restrict factor, Index rows, Index width, T* __restrict x,
                           T* __restrict sums) {
  for (Index r = 0; r < rows; ++r, x += width, factor += width)
    for (Index j = 0; j < width; ++j) {
      x[j] *= factor[j];
      sums[j] += x[j];
    }
}

/// product := W and W_dot, one after the other, where W = rho x and x is w_2 or b_2.
template <class T>
void vary_product(double rho, double rho_dot, const T* x, const T* x_dot, Index count, T* product) {
  scaled(rho, x, count, product);
  T* __restrict product_dot = product + count;
  const T factor = static_cast<T>(rho), factor_dot = static_cast<T>(rho_dot);
  for (Index i = 0; i < count; ++i) product_dot[i] = factor * x_dot[i] + factor_dot * x[i];
}

/// out[r] := (left[r], right[r]): one product with stacked weights instead of two short ones.
template <class P, class T>
void beside(const P* left, const P* right, Index rows, Index width, T* out) {
  for (Index r = 0; r < rows; ++r, left += width, right += width, out += 2 * width) {
    for (Index j = 0; j < width; ++j) out[j] = static_cast<T>(left[j]);
    for (Index j = 0; j < width; ++j) out[width + j] = static_cast<T>(right[j]);
  }
}

}  // namespace

template <class T>
Reaction<T>::Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands)
    : context_(context),
      settings_(settings),
      width_(context.width),
      hidden_(settings.hidden),
      w_1_(operands),
      w_2_(operands) {
  // Inputs, hidden values and outputs of a block get half of a 1 MiB second-level cache, the weights the
  // rest. Measured (f = 4 d = 256): within 3 % of the best from 256 KiB on, 5 to 20 % slower below.
  constexpr Index budget = 512 * 1024 / sizeof(T);
  // Where the weights are larger than the cache, a block must be large enough to be worth reading them again.
  const Index fit = budget / (2 * width_ + hidden_);
  const Index least = 2 * width_ * hidden_ > 2 * budget ? 1024 : 16;
  const Index block = std::max(std::min<Index>(fit / 16 * 16, 512), least);
  block_ = std::min(block, std::max(Index{context.rows()}, Index{1}));
}

template <class T>
std::unique_ptr<TermTape> Reaction<T>::make_tape(Order upto) const {
  const Index rows = context_.rows();
  if (upto == Order::first) return std::make_unique<ValueTape>(rows, width_, hidden_, false);
  const bool curvatures = settings_.activation != Activation::relu;
  return std::make_unique<SecondOrderTape>(rows, width_, hidden_, curvatures);
}

template <class T>
void Reaction<T>::set_maps(const ReactionWeights<const T>& theta) {
  w_1_.set(theta.w_1, hidden_, width_);
  w_2_.set(theta.w_2, width_, hidden_);
}

template <class T>
void Reaction<T>::compute_hidden(const ReactionWeights<const T>& theta, const double* u, Index rows,
                                 const Hidden& hidden) {
  if (settings_.layer_norm)
    layer_norm(u, width_, rows, width_, theta.norm, theta.gain, theta.bias, hidden.normal, width_);
  else
    round_to(u, rows * width_, hidden.normal);
  w_1_.apply(rows, hidden.normal, hidden.value);
  const auto at = [](T* all, Index first) { return all != nullptr ? all + first : nullptr; };
  for (Index first = 0; first < rows * hidden_; first += hidden_)
    activate(settings_.activation, theta.b_1, hidden.value + first, at(hidden.slope, first),
             at(hidden.curvature, first), hidden_);
}

template <class T>
typename Reaction<T>::Hidden Reaction<T>::known_hidden(const ReactionWeights<const T>& theta, const double* u,
                                                       Index first, Index rows, const ValueTape* tape,
                                                       const Hidden& scratch) {
  if (tape != nullptr) return tape->at(first);
  compute_hidden(theta, u + first * width_, rows, scratch);
  return scratch;
}

template <class T>
Index Reaction<T>::hidden_scratch(const ValueTape* tape) const {
  return tape != nullptr ? 0 : block_ * (width_ + 2 * hidden_);
}

template <class T>
typename Reaction<T>::Hidden Reaction<T>::take_hidden(const ValueTape* tape) {
  if (tape != nullptr) return {};
  T* const normal = scratch_.take(block_ * width_);
  T* const value = scratch_.take(block_ * hidden_);
  return {normal, value, scratch_.take(block_ * hidden_)};
}

template <class T>
void Reaction<T>::apply(const LayerWeights<const T>& weights, const double* u, Sum out, TermTape* tape) {
  const InPiece piece(Piece::reaction);
  count(1);
  const auto* const keep = value_part<ValueTape>(tape);
  const ReactionWeights<const T>& theta = mine(weights);
  set_maps(theta);
  scratch_.reset(block_ * (2 * width_ + hidden_), 3);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    const Hidden hidden = keep != nullptr ? keep->at(first) : Hidden{normal, value};
    compute_hidden(theta, u + at, rows, hidden);
    // out = base + scale rho (W_2 a + b_2)
    w_2_.apply(rows, hidden.value, result);
    for (Index row = 0; row < rows * width_; row += width_)
      simd::set_sum(out.scale * *theta.rho, result + row, theta.b_2, width_, out.base + at + row,
                    out.out + at + row);
  });
}

template <class T>
void Reaction<T>::push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at,
                       Sum out, TermTape* tape) {
  const InPiece piece(Piece::reaction);
  const auto* const known = value_part<ValueTape>(tape);
  count((theta_dot != nullptr ? 2 : 1) + (tape != nullptr ? 0 : 1));
  set_maps(mine(theta));
  if (theta_dot == nullptr) return push_state(mine(theta), at, out, known);
  push_all(mine(theta), mine(*theta_dot), at, out, known, second_order_part<SecondOrderTape>(tape));
}

// out = base + scale rho W_2 (g'(z) . (W_1 N'(u) u_dot))
template <class T>
void Reaction<T>::push_state(const ReactionWeights<const T>& theta, Point at, Sum out,
                             const ValueTape* tape) {
  scratch_.reset(hidden_scratch(tape) + block_ * (2 * width_ + hidden_), 6);
  const Hidden scratch = take_hidden(tape);
  T* normal_dot = scratch_.take(block_ * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = known_hidden(theta, at.u, first, rows, tape, scratch);
    if (settings_.layer_norm)
      layer_norm_tangent(at.u + at_row, at.u_dot + at_row, width_, rows, width_, theta.norm, theta.gain,
                         normal_dot, width_);
    else
      round_to(at.u_dot + at_row, rows * width_, normal_dot);
    w_1_.apply(rows, normal_dot, a_dot);
    for (Index i = 0; i < rows * hidden_; ++i) a_dot[i] *= known.slope[i];
    w_2_.apply(rows, a_dot, result);
    simd::set_sum(out.scale * *theta.rho, result, rows * width_, out.base + at_row, out.out + at_row);
  });
}

template <class T>
void Reaction<T>::push_all(const ReactionWeights<const T>& theta, const ReactionWeights<const T>& theta_dot,
                           Point at, Sum out, const ValueTape* tape, SecondOrderTape* keep) {
  const Index matrix_size = hidden_ * width_;
  scratch_.reset(hidden_scratch(tape) + 4 * matrix_size + 2 * width_ + block_ * (4 * width_ + 2 * hidden_),
                 11);
  const Hidden scratch = take_hidden(tape);
  T* w_1 = scratch_.take(2 * matrix_size);
  T* w_2 = scratch_.take(2 * matrix_size);
  T* b_2 = scratch_.take(2 * width_);
  T* normals = scratch_.take(block_ * 2 * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  T* own_normal_dot = scratch_.take(block_ * width_);
  T* own_z_dot = scratch_.take(block_ * hidden_);
  beside(theta.w_1, theta_dot.w_1, hidden_, width_, w_1);
  vary_product(*theta.rho, *theta_dot.rho, theta.w_2, theta_dot.w_2, matrix_size, w_2);
  vary_product(*theta.rho, *theta_dot.rho, theta.b_2, theta_dot.b_2, width_, b_2);
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = known_hidden(theta, at.u, first, rows, tape, scratch);
    T* const normal_dot = keep != nullptr ? keep->normal_dot + at_row : own_normal_dot;
    T* const z_dot = keep != nullptr ? keep->z_dot + first * hidden_ : own_z_dot;
    if (settings_.layer_norm)
      layer_norm_full_tangent(at.u + at_row, at.u_dot + at_row, width_, rows, width_, theta.norm, theta.gain,
                              theta_dot.gain, theta_dot.bias, normal_dot, width_);
    else
      round_to(at.u_dot + at_row, rows * width_, normal_dot);
    // z_dot = W_1 N_dot + W_1_dot N + b_1_dot
    beside(normal_dot, known.normal, rows, width_, normals);
    repeat_row(theta_dot.b_1, rows, hidden_, z_dot);
    set_product(row_major(z_dot, rows, hidden_), row_major<const T>(normals, rows, 2 * width_),
                row_major<const T>(w_1, hidden_, 2 * width_).transpose(), InsertMode::add);
    for (Index i = 0; i < rows * hidden_; ++i) a_dot[i] = known.slope[i] * z_dot[i];
    // t = W a_dot + W_dot a + b_dot
    repeat_row(b_2 + width_, rows, width_, result);
    auto t = row_major(result, rows, width_);
    const auto w_2_and_dot = [&](const T* w_2_or_dot) { return row_major(w_2_or_dot, width_, hidden_); };
    set_product(t, row_major<const T>(a_dot, rows, hidden_), w_2_and_dot(w_2).transpose(), InsertMode::add);
    set_product(t, row_major<const T>(known.value, rows, hidden_), w_2_and_dot(w_2 + matrix_size).transpose(),
                InsertMode::add);
    simd::set_sum(out.scale, result, rows * width_, out.base + at_row, out.out + at_row);
  });
}

template <class T>
void Reaction<T>::pull(const LayerWeights<const T>& weights, const double* u, const double* w, Sum u_bar,
                       const LayerWeights<double>* gradient, TermTape* tape) {
  const InPiece piece(Piece::reaction);
  count(tape != nullptr ? 2 : 3);
  const auto* const value = value_part<ValueTape>(tape);
  auto* const keep = second_order_part<SecondOrderTape>(tape);
  const ReactionWeights<const T>& theta = mine(weights);
  const ReactionWeights<double>* const bar = gradient != nullptr ? &mine(*gradient) : nullptr;
  const double factor = u_bar.scale * *theta.rho;
  const Index matrix_size = hidden_ * width_;
  scratch_.reset(hidden_scratch(value) + block_ * (2 * width_ + hidden_) + 2 * matrix_size + hidden_ + width_,
                 10);
  const Hidden scratch = take_hidden(value);
  T* seed = scratch_.take(block_ * width_);
  T* z_bar = scratch_.take(block_ * hidden_);
  T* normal_bar = scratch_.take(block_ * width_);
  T* w_1 = scratch_.take(matrix_size);
  T* w_2 = scratch_.take(matrix_size);
  T* b_1 = scratch_.take(hidden_);
  T* b_2 = scratch_.take(width_);
  set_maps(theta);
  std::fill_n(b_1, hidden_, T(0));
  std::fill_n(b_2, width_, T(0));
  std::fill_n(w_1, matrix_size, T(0));
  std::fill_n(w_2, matrix_size, T(0));
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    const Hidden known = known_hidden(theta, u, first, rows, value, scratch);
    round_to(w + at, rows * width_, seed);
    // a_bar = W_2^T w, then z_bar = a_bar . g'(z) in the same memory
    w_2_.apply_transpose(rows, seed, InsertMode::insert, z_bar);
    if (keep != nullptr) scaled(*theta.rho, z_bar, rows * hidden_, keep->a_bar + first * hidden_);
    multiply_and_add_rows(known.slope, rows, hidden_, z_bar, b_1);
    if (bar != nullptr || keep != nullptr) {
      simd::add_rows(seed, rows, width_, b_2);
      w_2_.add_gradient(rows, seed, known.value, w_2);
      w_1_.add_gradient(rows, z_bar, known.normal, w_1);
    }
    // u_bar = base + scale rho N'(u)^T W_1^T z_bar
    w_1_.apply_transpose(rows, z_bar, InsertMode::insert, normal_bar);
    if (keep != nullptr) scaled(*theta.rho, normal_bar, rows * width_, keep->normal_bar + at);
    if (settings_.layer_norm) {
      layer_norm_adjoint(u + at, width_, normal_bar, width_, rows, width_, theta.norm, theta.gain, factor,
                         u_bar.base + at, u_bar.out + at, bar != nullptr ? bar->gain : nullptr,
                         bar != nullptr ? bar->bias : nullptr);
    } else {
      simd::set_sum(factor, normal_bar, rows * width_, u_bar.base + at, u_bar.out + at);
    }
  });
  if (keep != nullptr) {
    std::copy_n(w_2, matrix_size, keep->w_2);
    std::copy_n(b_2, width_, keep->b_2);
  }
  if (bar == nullptr) return;
  *bar->rho +=
      u_bar.scale * (inner_product(theta.w_2, w_2, matrix_size) + inner_product(theta.b_2, b_2, width_));
  simd::set_sum(factor, w_1, matrix_size, bar->w_1, bar->w_1);
  simd::set_sum(factor, w_2, matrix_size, bar->w_2, bar->w_2);
  simd::set_sum(factor, b_1, hidden_, bar->b_1, bar->b_1);
  simd::set_sum(factor, b_2, width_, bar->b_2, bar->b_2);
}

namespace {

/// Arrays of a block of rows, [row][hidden]: z_bar, z_bar_dot (a_bar_dot at first) and a_dot.
template <class T>
struct Varied {
  T* __restrict z_bar, * __restrict z_bar_dot, * __restrict a_dot;
};

/// Computes z_bar, a_dot and z_bar_dot of `out` from g'(z) and g''(z) (null: 0), and adds the rows of
/// z_bar_dot to `sums`.
template <class T>
void vary(const T* __restrict slope, const T* __restrict second, const T* __restrict a_bar,
          const T* __restrict z_dot, Index rows, Index hidden, Varied<T> out, T* __restrict sums) {
  for (Index first = 0; first < rows * hidden; first += hidden)
    for (Index j = 0; j < hidden; ++j) {
      const Index i = first + j;
      // z_bar = a_bar . g', a_dot = g' . z_dot, z_bar_dot = a_bar_dot . g' + a_bar . g'' . z_dot
      out.z_bar[i] = a_bar[i] * slope[i];
      out.a_dot[i] = slope[i] * z_dot[i];
      const T curvature = second != nullptr ? second[i] * z_dot[i] : T(0);
      out.z_bar_dot[i] = out.z_bar_dot[i] * slope[i] + a_bar[i] * curvature;
      sums[j] += out.z_bar_dot[i];
    }
}

}  // namespace

template <class T>
void Reaction<T>::pull_along(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                             Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                             TermTape* tape) {
  const InPiece piece(Piece::reaction);
  count(4);
  const ReactionWeights<const T>&theta = mine(weights), &theta_dot = mine(weights_dot);
  const ReactionWeights<double>& bar = mine(gradient_dot);
  const auto& kept = *second_order_part<SecondOrderTape>(tape);
  const auto& value = *value_part<ValueTape>(tape);
  const Index matrix_size = hidden_ * width_;
  scratch_.reset(4 * matrix_size + hidden_ + width_ + block_ * (3 * width_ + 3 * hidden_), 9);
  T* w_2 = scratch_.take(2 * matrix_size);
  T* w_1_bar = scratch_.take(matrix_size);
  T* w_2_bar = scratch_.take(matrix_size);
  T* b_1_bar = scratch_.take(hidden_);
  T* b_2_bar = scratch_.take(width_);
  T* seeds = scratch_.take(block_ * 2 * width_);
  T* normal_bar_dot = scratch_.take(block_ * width_);
  const Varied<T> varied{scratch_.take(block_ * hidden_), scratch_.take(block_ * hidden_),
                         scratch_.take(block_ * hidden_)};
  vary_product(*theta.rho, *theta_dot.rho, theta.w_2, theta_dot.w_2, matrix_size, w_2);
  std::fill_n(w_1_bar, matrix_size, T(0));
  std::fill_n(w_2_bar, matrix_size, T(0));
  std::fill_n(b_1_bar, hidden_, T(0));
  std::fill_n(b_2_bar, width_, T(0));
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = value.at(first);
    const auto hidden = [&](const T* x) { return row_major(x, rows, hidden_); };
    const auto normal = [&](const T* x) { return row_major(x, rows, width_); };
    beside(w.w_dot + at_row, w.w + at_row, rows, width_, seeds);
    const auto both = row_major<const T>(seeds, rows, 2 * width_);
    const auto seed_dot = both.leftCols(width_), seed = both.rightCols(width_);
    set_product(row_major<T>(varied.z_bar_dot, rows, hidden_), both,
                row_major<const T>(w_2, 2 * width_, hidden_));  // a_bar_dot
    vary(known.slope, known.curvature, kept.a_bar + first * hidden_, kept.z_dot + first * hidden_, rows,
         hidden_, varied, b_1_bar);
    for (Index r = 0; r < rows; ++r) simd::add_rows(seeds + 2 * r * width_, 1, width_, b_2_bar);
    // G_dot += w_dot a^T + w a_dot^T
    auto w_2_sum = row_major(w_2_bar, width_, hidden_);
    set_product(w_2_sum, seed_dot.transpose(), hidden(known.value), InsertMode::add);
    set_product(w_2_sum, seed.transpose(), hidden(varied.a_dot), InsertMode::add);
    // W_1_bar_dot += z_bar_dot N^T + z_bar N_dot^T
    auto w_1_sum = row_major(w_1_bar, hidden_, width_);
    set_product(w_1_sum, hidden(varied.z_bar_dot).transpose(), normal(known.normal), InsertMode::add);
    set_product(w_1_sum, hidden(varied.z_bar).transpose(), normal(kept.normal_dot + at_row), InsertMode::add);
    // N_bar_dot = W_1^T z_bar_dot + W_1_dot^T z_bar
    auto normal_sum = row_major(normal_bar_dot, rows, width_);
    set_product(normal_sum, hidden(varied.z_bar_dot), row_major(theta.w_1, hidden_, width_));
    set_product(normal_sum, hidden(varied.z_bar), row_major(theta_dot.w_1, hidden_, width_), InsertMode::add);
    if (settings_.layer_norm)
      layer_norm_adjoint_tangent(at.u + at_row, at.u_dot + at_row, width_, kept.normal_bar + at_row,
                                 normal_bar_dot, width_, rows, width_, theta.norm, theta.gain, theta_dot.gain,
                                 u_bar_dot.scale, u_bar_dot.base + at_row, u_bar_dot.out + at_row, bar.gain,
                                 bar.bias);
    else
      simd::set_sum(u_bar_dot.scale, normal_bar_dot, rows * width_, u_bar_dot.base + at_row,
                    u_bar_dot.out + at_row);
  });
  *bar.rho +=
      u_bar_dot.scale *
      (inner_product(theta.w_2, w_2_bar, matrix_size) + inner_product(theta_dot.w_2, kept.w_2, matrix_size) +
       inner_product(theta.b_2, b_2_bar, width_) + inner_product(theta_dot.b_2, kept.b_2, width_));
  simd::set_sum(u_bar_dot.scale, w_1_bar, matrix_size, bar.w_1, bar.w_1);
  simd::set_sum(u_bar_dot.scale, b_1_bar, hidden_, bar.b_1, bar.b_1);
  simd::set_sum(u_bar_dot.scale * *theta.rho, w_2_bar, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(u_bar_dot.scale * *theta_dot.rho, kept.w_2, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(u_bar_dot.scale * *theta.rho, b_2_bar, width_, bar.b_2, bar.b_2);
  simd::set_sum(u_bar_dot.scale * *theta_dot.rho, kept.b_2, width_, bar.b_2, bar.b_2);
}

template class Reaction<float>;
template class Reaction<double>;

}  // namespace fluxformer
