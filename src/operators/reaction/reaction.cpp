#include "operators/reaction/reaction.hpp"

#include <algorithm>
#include <cstddef>

#include "operators/kernels/product.hpp"
#include "operators/kernels/simd.hpp"
#include "operators/kernels/vector_math.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

// With z = W_z N(u) + b_z, v = W_v N(u) + b_v, the hidden values a, a . b for products number by number, and _bar
// for adjoints:
//
//   plain     a = g(z)          W_z = W_1            no v
//   gated     a = g(z) . v      W_z = W_G,   W_v = W_1
//
//   value     R(u) = W_2 a + b_2
//   tangent   J u_dot = W_2 (a_z . (W_z N_dot) + a_v . (W_v N_dot))      N_dot = N'(u) u_dot
//
//   plain     a_z = g'(z)       a_zz = g''(z)
//   gated     a_z = g'(z) . v   a_zz = g''(z) . v    a_v = g(z)   a_zv = g'(z)
//
// In a plain network terms with v are missing. The adjoint of rho R, where sums over rows are taken in T and added
// to the gradient once:
//
//   a_bar = W_2^T w                          z_bar = a_bar . a_z,   v_bar = a_bar . a_v
//   u_bar   += rho N'(u)^T (W_z^T z_bar + W_v^T v_bar)
//   W_z_bar += rho sum_rows z_bar N(u)^T     b_z_bar += rho sum_rows z_bar     and so with v
//   W_2_bar += rho G                         b_2_bar += rho B
//   rho_bar += <W_2, G> + <b_2, B>           G = sum_rows w a^T,   B = sum_rows w
//
// Along a direction (_dot) of the weights, u and w, with rho moved into the outer weights: W = rho W_2, b =
// rho b_2, W_dot = rho W_2_dot + rho_dot W_2 and so on, a_bar = W^T w:
//
//   z_dot = W_z N_dot + W_z_dot N + b_z_dot            and so with v
//   a_dot = a_z . z_dot + a_v . v_dot
//   t     = W a_dot + W_dot a + b_dot                  the tangent of rho R
//
//   a_bar_dot   = W^T w_dot + W_dot^T w
//   z_bar_dot   = a_bar_dot . a_z + a_bar . (a_zz . z_dot + a_zv . v_dot)
//   v_bar_dot   = a_bar_dot . a_v + a_bar . a_zv . z_dot
//   N_bar_dot   = W_z^T z_bar_dot + W_z_dot^T z_bar + W_v^T v_bar_dot + W_v_dot^T v_bar
//   W_z_bar_dot = sum_rows z_bar_dot N^T + z_bar N_dot^T   b_z_bar_dot = sum_rows z_bar_dot     and so with v
//   W_2_bar_dot = rho G_dot + rho_dot G                b_2_bar_dot = rho B_dot + rho_dot B
//   rho_bar_dot = <W_2, G_dot> + <W_2_dot, G> + <b_2, B_dot> + <b_2_dot, B>
//   G_dot       = sum_rows w_dot a^T + w a_dot^T       B_dot = sum_rows w_dot
//
// Products: 2 in the value (gated 3), twice as many in its adjoint, four times in its tangent.

/// Arrays of a block of rows: N(u) [row][width], and a and its derivatives by z and v [row][hidden]. Derivatives
/// may be null: not wanted, or zero. by_v is there whenever there is a gate, since it holds v at first.
template <class T>
struct Reaction<T>::Hidden {
  T *normal = nullptr, *value = nullptr, *by_z = nullptr, *by_zz = nullptr;
  T *by_v = nullptr, *by_zv = nullptr;
  /// The arrays from this row on.
  Hidden at(Index row, Index width, Index hidden) const {
    const auto from = [&](T* all, Index size) { return all != nullptr ? all + row * size : nullptr; };
    return {from(normal, width), from(value, hidden), from(by_z, hidden),
            from(by_zz, hidden), from(by_v, hidden),  from(by_zv, hidden)};
  }
};

/// Tape of the value: N(u), a and first derivatives of a, and perhaps second ones, of all rows of the slab.
template <class T>
class Reaction<T>::ValueTape final : public TermTape {
 public:
  /// Room for the arrays that `term` needs for derivatives up to this order.
  ValueTape(const Reaction& term, Order upto) : width_(term.width_), hidden_(term.hidden_) {
    const Index rows = term.context_.rows();
    const bool second = upto == Order::second, gated = term.settings_.gated;
    const bool curved = second && term.settings_.activation != Activation::relu;
    const Index arrays = 2 + (curved ? 1 : 0) + (gated ? 1 : 0) + (gated && second ? 1 : 0);
    numbers_ = rows * (width_ + arrays * hidden_);
    memory_.reset(numbers_, 1 + arrays);
    all_.normal = memory_.take(rows * width_);
    const auto take = [&] { return memory_.take(rows * hidden_); };
    all_.value = take();
    all_.by_z = take();
    if (curved) all_.by_zz = take();
    if (gated) all_.by_v = take();
    if (gated && second) all_.by_zv = take();
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }
  /// The hidden values from this row on.
  Hidden at(Index row) const { return all_.at(row, width_, hidden_); }

 private:
  Index numbers_, width_, hidden_;
  Scratch<T> memory_;
  Hidden all_;
};

/// Tape of second order: that of the value, and what pull (of w) and push leave for pull_along.
template <class T>
class Reaction<T>::SecondOrderTape final : public TermTape {
 public:
  /// Room for all rows of `term`; the members below hold no values yet.
  explicit SecondOrderTape(const Reaction& term) : value_(term, Order::second) {
    const Index rows = term.context_.rows(), width = term.width_, hidden = term.hidden_, gate = term.gate();
    numbers_ = rows * (2 * (width + hidden) + gate) + width * (hidden + 1);
    memory_.reset(numbers_, 7);
    a_bar = memory_.take(rows * hidden);
    normal_bar = memory_.take(rows * width);
    w_2 = memory_.take(width * hidden);
    b_2 = memory_.take(width);
    normal_dot = memory_.take(rows * width);
    z_dot = memory_.take(rows * hidden);
    v_dot = memory_.take(rows * gate);
  }
  std::size_t bytes() const override { return value_.bytes() + numbers_ * sizeof(T); }
  TermTape& value() override { return value_; }

  T* a_bar;       ///< rho W_2^T w [row][hidden]
  T* normal_bar;  ///< rho (W_z^T z_bar + W_v^T v_bar) [row][width]
  T* w_2;         ///< G = sum_rows w a^T [width][hidden]
  T* b_2;         ///< B = sum_rows w [width]
  T* normal_dot;  ///< N_dot [row][width]
  T* z_dot;       ///< [row][hidden]
  T* v_dot;       ///< [row][hidden], gated networks alone

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

/// Begins the sums out[r] = bias + ...; returns how the first product joins them. `bias` may be null.
template <class T>
InsertMode begin_with(const T* bias, Index rows, Index width, T* out) {
  if (bias == nullptr) return InsertMode::insert;
  repeat_row(bias, rows, width, out);
  return InsertMode::add;
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

/// x := g(x + bias), slope := g' and curvature := g'' where not null; `bias` may be null, too.
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
      return curvature != nullptr ? silu_curvature(x, slope, curvature, count, bias)
                                  : silu(x, slope, count, bias);
    case Activation::relu:
      if (bias != nullptr) {
        for (Index i = 0; i < count; ++i) x[i] += bias[i];
      }
      if (slope != nullptr) {
        for (Index i = 0; i < count; ++i) slope[i] = x[i] > 0 ? T(1) : T(0);
      }
      // A NaN stays one.
      for (Index i = 0; i < count; ++i) x[i] = x[i] < 0 ? T(0) : x[i];
  }
}

/// The gate, a = g(z) . v with v = by_v + bias: makes value, by_z and by_zz those of a from those of g(z), and sets
/// by_zv := g'(z) and by_v := g(z). All but value and by_v may be null.
template <class T>
void multiply_by_v(const T* bias, Index count, T* __restrict value, T* __restrict by_z, T* __restrict by_zz,
                   T* __restrict by_v, T* __restrict by_zv) {
  if (bias != nullptr) {
    for (Index i = 0; i < count; ++i) by_v[i] += bias[i];
  }
  if (by_zz != nullptr) {
    for (Index i = 0; i < count; ++i) by_zz[i] *= by_v[i];
  }
  if (by_zv != nullptr) std::copy_n(by_z, count, by_zv);
  if (by_z != nullptr) {
    for (Index i = 0; i < count; ++i) by_z[i] *= by_v[i];
  }
  for (Index i = 0; i < count; ++i) {
    const T g = value[i];
    value[i] = g * by_v[i];
    by_v[i] = g;
  }
}

/// x *= factor
template <class T>
void multiply(const T* __restrict factor, Index count, T* __restrict x) {
  for (Index i = 0; i < count; ++i) x[i] *= factor[i];
}

/// y += factor . x
template <class T>
void add_product(const T* __restrict factor, const T* __restrict x, Index count, T* __restrict y) {
  for (Index i = 0; i < count; ++i) y[i] += factor[i] * x[i];
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

/// bar += factor * sum; nothing for a parameter that does not exist (null).
template <class T>
void add_gradient(double factor, const T* sum, Index count, double* bar) {
  if (bar != nullptr) simd::set_sum(factor, sum, count, bar, bar);
}

/// <x, y>, 0 for a parameter x that does not exist (null).
template <class T>
double inner_product_or_zero(const T* x, const T* y, Index count) {
  return x != nullptr ? inner_product(x, y, count) : 0;
}

}  // namespace

template <class T>
Reaction<T>::Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands)
    : context_(context),
      settings_(settings),
      width_(context.width),
      hidden_(settings.hidden),
      to_z_(operands),
      to_v_(operands),
      w_2_(operands) {
  // Inputs, hidden values and outputs of a block get half of a 1 MiB second-level cache, the weights the
  // rest. Measured (f = 4 d = 256): within 3 % of the best from 256 KiB on, 5 to 20 % slower below.
  constexpr Index budget = 512 * 1024 / sizeof(T);
  // Where the weights are larger than the cache, a block must be large enough to be worth reading them again.
  const Index fit = budget / (2 * width_ + hidden_ + gate());
  const Index least = width_ * (2 * hidden_ + gate()) > 2 * budget ? 1024 : 16;
  const Index block = std::max(std::min<Index>(fit / 16 * 16, 512), least);
  block_ = std::min(block, std::max(Index{context.rows()}, Index{1}));
}

template <class T>
std::unique_ptr<TermTape> Reaction<T>::make_tape(Order upto) const {
  if (upto == Order::first) return std::make_unique<ValueTape>(*this, upto);
  return std::make_unique<SecondOrderTape>(*this);
}

template <class T>
void Reaction<T>::set_maps(const ReactionWeights<const T>& theta) {
  to_z_.set(map_to_z(theta).w, hidden_, width_);
  if (settings_.gated) to_v_.set(map_to_v(theta).w, hidden_, width_);
  w_2_.set(theta.w_2, width_, hidden_);
}

template <class T>
void Reaction<T>::compute_hidden(const ReactionWeights<const T>& theta, const double* u, Index rows,
                                 const Hidden& hidden) {
  if (settings_.layer_norm)
    layer_norm(u, width_, rows, width_, theta.norm, theta.gain, theta.bias, hidden.normal, width_);
  else
    round_to(u, rows * width_, hidden.normal);
  // a = g(z), z = W_z N + b_z; gated a = g(z) . v, v = W_v N + b_v
  to_z_.apply(rows, hidden.normal, hidden.value);
  if (settings_.gated) to_v_.apply(rows, hidden.normal, hidden.by_v);
  for (Index row = 0; row < rows; ++row) {
    const Hidden at = hidden.at(row, width_, hidden_);
    activate(settings_.activation, map_to_z(theta).b, at.value, at.by_z, at.by_zz, hidden_);
    if (settings_.gated)
      multiply_by_v(map_to_v(theta).b, hidden_, at.value, at.by_z, at.by_zz, at.by_v, at.by_zv);
  }
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
  return tape != nullptr ? 0 : block_ * (width_ + 2 * hidden_ + gate());
}

template <class T>
typename Reaction<T>::Hidden Reaction<T>::take_hidden(const ValueTape* tape) {
  if (tape != nullptr) return {};
  Hidden hidden;
  hidden.normal = scratch_.take(block_ * width_);
  hidden.value = scratch_.take(block_ * hidden_);
  hidden.by_z = scratch_.take(block_ * hidden_);
  if (settings_.gated) hidden.by_v = scratch_.take(block_ * hidden_);
  return hidden;
}

template <class T>
void Reaction<T>::apply(const LayerWeights<const T>& weights, const double* u, Sum out, TermTape* tape) {
  const InPiece piece(Piece::reaction);
  count(1);
  const auto* const keep = value_part<ValueTape>(tape);
  const ReactionWeights<const T>& theta = mine(weights);
  set_maps(theta);
  scratch_.reset(block_ * (2 * width_ + hidden_ + gate()), 4);
  Hidden scratch;
  scratch.normal = scratch_.take(block_ * width_);
  scratch.value = scratch_.take(block_ * hidden_);
  scratch.by_v = scratch_.take(block_ * gate());
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    const Hidden hidden = keep != nullptr ? keep->at(first) : scratch;
    compute_hidden(theta, u + at, rows, hidden);
    // out = base + scale rho (W_2 a + b_2)
    const double factor = out.scale * *theta.rho;
    w_2_.apply(rows, hidden.value, result);
    if (theta.b_2 == nullptr)
      return simd::set_sum(factor, result, rows * width_, out.base + at, out.out + at);
    for (Index row = 0; row < rows * width_; row += width_)
      simd::set_sum(factor, result + row, theta.b_2, width_, out.base + at + row, out.out + at + row);
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

// out = base + scale rho W_2 (a_z . (W_z N_dot) + a_v . (W_v N_dot)), N_dot = N'(u) u_dot
template <class T>
void Reaction<T>::push_state(const ReactionWeights<const T>& theta, Point at, Sum out,
                             const ValueTape* tape) {
  scratch_.reset(hidden_scratch(tape) + block_ * (2 * width_ + hidden_ + gate()), 8);
  const Hidden scratch = take_hidden(tape);
  T* normal_dot = scratch_.take(block_ * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* v_dot = scratch_.take(block_ * gate());
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = known_hidden(theta, at.u, first, rows, tape, scratch);
    if (settings_.layer_norm)
      layer_norm_tangent(at.u + at_row, at.u_dot + at_row, width_, rows, width_, theta.norm, theta.gain,
                         normal_dot, width_);
    else
      round_to(at.u_dot + at_row, rows * width_, normal_dot);
    to_z_.apply(rows, normal_dot, a_dot);
    multiply(known.by_z, rows * hidden_, a_dot);
    if (settings_.gated) {
      to_v_.apply(rows, normal_dot, v_dot);
      add_product(known.by_v, v_dot, rows * hidden_, a_dot);
    }
    w_2_.apply(rows, a_dot, result);
    simd::set_sum(out.scale * *theta.rho, result, rows * width_, out.base + at_row, out.out + at_row);
  });
}

template <class T>
void Reaction<T>::push_all(const ReactionWeights<const T>& theta, const ReactionWeights<const T>& theta_dot,
                           Point at, Sum out, const ValueTape* tape, SecondOrderTape* keep) {
  const Index matrix_size = hidden_ * width_;
  scratch_.reset(hidden_scratch(tape) + 2 * (2 * hidden_ + gate() + 1) * width_ +
                     block_ * (4 * width_ + 2 * hidden_ + gate()),
                 14);
  const Hidden scratch = take_hidden(tape);
  T* w_z = scratch_.take(2 * matrix_size);
  T* w_v = scratch_.take(2 * gate() * width_);
  T* w_2 = scratch_.take(2 * matrix_size);
  T* b_2 = scratch_.take(2 * width_);
  T* normals = scratch_.take(block_ * 2 * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  T* own_normal_dot = scratch_.take(block_ * width_);
  T* own_z_dot = scratch_.take(block_ * hidden_);
  T* own_v_dot = scratch_.take(block_ * gate());
  beside(map_to_z(theta).w, map_to_z(theta_dot).w, hidden_, width_, w_z);
  if (settings_.gated) beside(map_to_v(theta).w, map_to_v(theta_dot).w, hidden_, width_, w_v);
  vary_product(*theta.rho, *theta_dot.rho, theta.w_2, theta_dot.w_2, matrix_size, w_2);
  const bool with_bias = theta.b_2 != nullptr;
  if (with_bias) vary_product(*theta.rho, *theta_dot.rho, theta.b_2, theta_dot.b_2, width_, b_2);
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = known_hidden(theta, at.u, first, rows, tape, scratch);
    T* const normal_dot = keep != nullptr ? keep->normal_dot + at_row : own_normal_dot;
    T* const z_dot = keep != nullptr ? keep->z_dot + first * hidden_ : own_z_dot;
    T* const v_dot = keep != nullptr ? keep->v_dot + first * gate() : own_v_dot;
    if (settings_.layer_norm)
      layer_norm_full_tangent(at.u + at_row, at.u_dot + at_row, width_, rows, width_, theta.norm, theta.gain,
                              theta_dot.gain, theta_dot.bias, normal_dot, width_);
    else
      round_to(at.u_dot + at_row, rows * width_, normal_dot);
    beside(normal_dot, known.normal, rows, width_, normals);
    // z_dot = W_z N_dot + W_z_dot N + b_z_dot, and so with v
    const auto vary = [&](const T* w_and_dot, const T* b_dot, T* varied) {
      const InsertMode into = begin_with(b_dot, rows, hidden_, varied);
      set_product(row_major(varied, rows, hidden_), row_major<const T>(normals, rows, 2 * width_),
                  row_major<const T>(w_and_dot, hidden_, 2 * width_).transpose(), into);
    };
    vary(w_z, map_to_z(theta_dot).b, z_dot);
    for (Index i = 0; i < rows * hidden_; ++i) a_dot[i] = known.by_z[i] * z_dot[i];
    if (settings_.gated) {
      vary(w_v, map_to_v(theta_dot).b, v_dot);
      add_product(known.by_v, v_dot, rows * hidden_, a_dot);
    }
    // t = W a_dot + W_dot a + b_dot
    auto t = row_major(result, rows, width_);
    const auto w_2_and_dot = [&](const T* w_2_or_dot) { return row_major(w_2_or_dot, width_, hidden_); };
    const InsertMode into = begin_with(with_bias ? b_2 + width_ : nullptr, rows, width_, result);
    set_product(t, row_major<const T>(a_dot, rows, hidden_), w_2_and_dot(w_2).transpose(), into);
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
  const Index matrix_size = hidden_ * width_,
              sums_size = (2 * hidden_ + gate() + 1) * width_ + hidden_ + gate();
  scratch_.reset(hidden_scratch(value) + block_ * (2 * width_ + hidden_ + gate()) + sums_size, 14);
  const Hidden scratch = take_hidden(value);
  T* seed = scratch_.take(block_ * width_);
  T* z_bar = scratch_.take(block_ * hidden_);
  T* v_bar = scratch_.take(block_ * gate());
  T* normal_bar = scratch_.take(block_ * width_);
  const InnerMap<T> z_sums = take_sums(hidden_), v_sums = take_sums(gate());
  T* w_2 = scratch_.take(matrix_size);
  T* b_2 = scratch_.take(width_);
  set_maps(theta);
  std::fill_n(b_2, width_, T(0));
  std::fill_n(w_2, matrix_size, T(0));
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    const Hidden known = known_hidden(theta, u, first, rows, value, scratch);
    round_to(w + at, rows * width_, seed);
    // a_bar = W_2^T w, then v_bar = a_bar . a_v, and z_bar = a_bar . a_z in the memory of a_bar
    w_2_.apply_transpose(rows, seed, InsertMode::insert, z_bar);
    if (keep != nullptr) scaled(*theta.rho, z_bar, rows * hidden_, keep->a_bar + first * hidden_);
    if (settings_.gated) {
      std::copy_n(z_bar, rows * hidden_, v_bar);
      multiply_and_add_rows(known.by_v, rows, hidden_, v_bar, v_sums.b);
    }
    multiply_and_add_rows(known.by_z, rows, hidden_, z_bar, z_sums.b);
    if (bar != nullptr || keep != nullptr) {
      simd::add_rows(seed, rows, width_, b_2);
      w_2_.add_gradient(rows, seed, known.value, w_2);
      to_z_.add_gradient(rows, z_bar, known.normal, z_sums.w);
      if (settings_.gated) to_v_.add_gradient(rows, v_bar, known.normal, v_sums.w);
    }
    // u_bar = base + scale rho N'(u)^T (W_z^T z_bar + W_v^T v_bar)
    to_z_.apply_transpose(rows, z_bar, InsertMode::insert, normal_bar);
    if (settings_.gated) to_v_.apply_transpose(rows, v_bar, InsertMode::add, normal_bar);
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
  *bar->rho += u_bar.scale *
               (inner_product(theta.w_2, w_2, matrix_size) + inner_product_or_zero(theta.b_2, b_2, width_));
  add_sums(factor, z_sums, v_sums, *bar);
  add_gradient(factor, w_2, matrix_size, bar->w_2);
  add_gradient(factor, b_2, width_, bar->b_2);
}

template <class T>
InnerMap<T> Reaction<T>::take_sums(Index hidden) {
  const InnerMap<T> sums{scratch_.take(hidden * width_), scratch_.take(hidden)};
  std::fill_n(sums.w, hidden * width_, T(0));
  std::fill_n(sums.b, hidden, T(0));
  return sums;
}

template <class T>
void Reaction<T>::add_sums(double factor, const InnerMap<T>& z_sums, const InnerMap<T>& v_sums,
                           const ReactionWeights<double>& bar) const {
  const auto add = [&](const InnerMap<T>& sums, const InnerMap<double>& to) {
    add_gradient(factor, sums.w, hidden_ * width_, to.w);
    add_gradient(factor, sums.b, hidden_, to.b);
  };
  add(z_sums, map_to_z(bar));
  if (settings_.gated) add(v_sums, map_to_v(bar));
}

namespace {

/// Arrays of a block of rows, [row][hidden]: z_bar, z_bar_dot (a_bar_dot at first) and a_dot; gated also v_bar and
/// v_bar_dot.
template <class T>
struct Varied {
  T* __restrict z_bar, * __restrict z_bar_dot, * __restrict a_dot;
  T* __restrict v_bar, * __restrict v_bar_dot;
};

/// Computes z_bar, a_dot and z_bar_dot of `out` from a_z and a_zz (null: 0), and adds the rows of z_bar_dot to
/// `sums`.
template <class T>
void vary(const T* __restrict by_z, const T* __restrict by_zz, const T* __restrict a_bar,
          const T* __restrict z_dot, Index rows, Index hidden, Varied<T> out, T* __restrict sums) {
  for (Index first = 0; first < rows * hidden; first += hidden)
    for (Index j = 0; j < hidden; ++j) {
      const Index i = first + j;
      // z_bar = a_bar . a_z, a_dot = a_z . z_dot, z_bar_dot = a_bar_dot . a_z + a_bar . a_zz . z_dot
      out.z_bar[i] = a_bar[i] * by_z[i];
      out.a_dot[i] = by_z[i] * z_dot[i];
      const T curvature = by_zz != nullptr ? by_zz[i] * z_dot[i] : T(0);
      out.z_bar_dot[i] = out.z_bar_dot[i] * by_z[i] + a_bar[i] * curvature;
      sums[j] += out.z_bar_dot[i];
    }
}

/// What the gate adds to `vary`, from a_v and a_zv: v_bar and v_bar_dot (a_bar_dot at first) of `out`, and the terms
/// of a_dot and z_bar_dot with v_dot. Adds the rows of z_bar_dot's terms and of v_bar_dot to the sums.
template <class T>
void vary_gate(const T* __restrict by_v, const T* __restrict by_zv, const T* __restrict a_bar,
               const T* __restrict z_dot, const T* __restrict v_dot, Index rows, Index hidden, Varied<T> out,
               T* __restrict z_sums, T* __restrict v_sums) {
  for (Index first = 0; first < rows * hidden; first += hidden)
    for (Index j = 0; j < hidden; ++j) {
      const Index i = first + j;
      // v_bar = a_bar . a_v, a_dot += a_v . v_dot, z_bar_dot += a_bar . a_zv . v_dot,
      // v_bar_dot = a_bar_dot . a_v + a_bar . a_zv . z_dot
      const T both = a_bar[i] * by_zv[i], of_z = both * v_dot[i];
      out.v_bar[i] = a_bar[i] * by_v[i];
      out.a_dot[i] += by_v[i] * v_dot[i];
      out.z_bar_dot[i] += of_z;
      out.v_bar_dot[i] = out.v_bar_dot[i] * by_v[i] + both * z_dot[i];
      z_sums[j] += of_z;
      v_sums[j] += out.v_bar_dot[i];
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
  const Index matrix_size = hidden_ * width_,
              sums_size = (2 * hidden_ + gate() + 1) * width_ + hidden_ + gate();
  scratch_.reset(2 * matrix_size + sums_size + block_ * (3 * width_ + 3 * hidden_ + 2 * gate()), 14);
  T* w_2 = scratch_.take(2 * matrix_size);
  const InnerMap<T> z_sums = take_sums(hidden_), v_sums = take_sums(gate());
  T* w_2_bar = scratch_.take(matrix_size);
  T* b_2_bar = scratch_.take(width_);
  T* seeds = scratch_.take(block_ * 2 * width_);
  T* normal_bar_dot = scratch_.take(block_ * width_);
  const auto take = [&](Index size) { return scratch_.take(block_ * size); };
  const Varied<T> varied{take(hidden_), take(hidden_), take(hidden_), take(gate()), take(gate())};
  vary_product(*theta.rho, *theta_dot.rho, theta.w_2, theta_dot.w_2, matrix_size, w_2);
  std::fill_n(w_2_bar, matrix_size, T(0));
  std::fill_n(b_2_bar, width_, T(0));
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_, at_hidden = first * hidden_;
    const Hidden known = value.at(first);
    const auto hidden = [&](const T* x) { return row_major(x, rows, hidden_); };
    const auto normal = [&](const T* x) { return row_major(x, rows, width_); };
    beside(w.w_dot + at_row, w.w + at_row, rows, width_, seeds);
    const auto both = row_major<const T>(seeds, rows, 2 * width_);
    const auto seed_dot = both.leftCols(width_), seed = both.rightCols(width_);
    set_product(row_major<T>(varied.z_bar_dot, rows, hidden_), both,
                row_major<const T>(w_2, 2 * width_, hidden_));  // a_bar_dot
    if (settings_.gated) std::copy_n(varied.z_bar_dot, rows * hidden_, varied.v_bar_dot);
    vary(known.by_z, known.by_zz, kept.a_bar + at_hidden, kept.z_dot + at_hidden, rows, hidden_, varied,
         z_sums.b);
    if (settings_.gated)
      vary_gate(known.by_v, known.by_zv, kept.a_bar + at_hidden, kept.z_dot + at_hidden,
                kept.v_dot + at_hidden, rows, hidden_, varied, z_sums.b, v_sums.b);
    for (Index r = 0; r < rows; ++r) simd::add_rows(seeds + 2 * r * width_, 1, width_, b_2_bar);
    // G_dot += w_dot a^T + w a_dot^T
    auto w_2_sum = row_major(w_2_bar, width_, hidden_);
    set_product(w_2_sum, seed_dot.transpose(), hidden(known.value), InsertMode::add);
    set_product(w_2_sum, seed.transpose(), hidden(varied.a_dot), InsertMode::add);
    // W_z_bar_dot += z_bar_dot N^T + z_bar N_dot^T, N_bar_dot = W_z^T z_bar_dot + W_z_dot^T z_bar; and so with v
    auto normal_sum = row_major(normal_bar_dot, rows, width_);
    const auto through = [&](const InnerMap<const T>& map, const InnerMap<const T>& map_dot, const T* its_bar,
                             const T* its_bar_dot, T* w_sums, InsertMode into) {
      auto w_sum = row_major(w_sums, hidden_, width_);
      set_product(w_sum, hidden(its_bar_dot).transpose(), normal(known.normal), InsertMode::add);
      set_product(w_sum, hidden(its_bar).transpose(), normal(kept.normal_dot + at_row), InsertMode::add);
      set_product(normal_sum, hidden(its_bar_dot), row_major(map.w, hidden_, width_), into);
      set_product(normal_sum, hidden(its_bar), row_major(map_dot.w, hidden_, width_), InsertMode::add);
    };
    through(map_to_z(theta), map_to_z(theta_dot), varied.z_bar, varied.z_bar_dot, z_sums.w,
            InsertMode::insert);
    if (settings_.gated)
      through(map_to_v(theta), map_to_v(theta_dot), varied.v_bar, varied.v_bar_dot, v_sums.w,
              InsertMode::add);
    if (settings_.layer_norm)
      layer_norm_adjoint_tangent(at.u + at_row, at.u_dot + at_row, width_, kept.normal_bar + at_row,
                                 normal_bar_dot, width_, rows, width_, theta.norm, theta.gain, theta_dot.gain,
                                 u_bar_dot.scale, u_bar_dot.base + at_row, u_bar_dot.out + at_row, bar.gain,
                                 bar.bias);
    else
      simd::set_sum(u_bar_dot.scale, normal_bar_dot, rows * width_, u_bar_dot.base + at_row,
                    u_bar_dot.out + at_row);
  });
  const double scale = u_bar_dot.scale;
  *bar.rho += scale * (inner_product(theta.w_2, w_2_bar, matrix_size) +
                       inner_product(theta_dot.w_2, kept.w_2, matrix_size) +
                       inner_product_or_zero(theta.b_2, b_2_bar, width_) +
                       inner_product_or_zero(theta_dot.b_2, kept.b_2, width_));
  add_sums(scale, z_sums, v_sums, bar);
  add_gradient(scale * *theta.rho, w_2_bar, matrix_size, bar.w_2);
  add_gradient(scale * *theta_dot.rho, kept.w_2, matrix_size, bar.w_2);
  add_gradient(scale * *theta.rho, b_2_bar, width_, bar.b_2);
  add_gradient(scale * *theta_dot.rho, kept.b_2, width_, bar.b_2);
}

template class Reaction<float>;
template class Reaction<double>;

}  // namespace fluxformer
