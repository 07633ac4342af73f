#include "operators/reaction/reaction.hpp"

#include <algorithm>
#include <cstddef>

#include "operators/kernels/matrix_product.hpp"
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

/// A tape of the value holds g''(z), too (kept), or not.
enum class Curvatures { none, kept };

/// Tape of the value: N(u), a, g'(z) and perhaps g''(z) of all rows of the slab.
template <class T>
class ReactionTape final : public TermTape {
 public:
  /// Room for rows * (width + 2 or 3 hidden) numbers.
  ReactionTape(Index rows, Index width, Index hidden, Curvatures curvatures)
      : numbers_(rows * (width + (curvatures == Curvatures::kept ? 3 : 2) * hidden)),
        width_(width),
        hidden_(hidden) {
    memory_.reset(numbers_, 4);
    all_.normal = memory_.take(rows * width);
    all_.value = memory_.take(rows * hidden);
    all_.slope = memory_.take(rows * hidden);
    if (curvatures == Curvatures::kept) all_.curvature = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }
  /// The hidden values from this row on.
  typename Reaction<T>::Hidden at(Index row) const {
    return {all_.normal + row * width_, all_.value + row * hidden_, all_.slope + row * hidden_,
            all_.curvature != nullptr ? all_.curvature + row * hidden_ : nullptr};
  }

 private:
  Index numbers_, width_, hidden_;
  Scratch<T> memory_;
  typename Reaction<T>::Hidden all_;
};

/// Tape of the adjoint at w, for its tangent.
template <class T>
class ReactionAdjointTape final : public TermTape {
 public:
  /// Room for `rows` rows; the members below hold no values yet.
  ReactionAdjointTape(Index rows, Index width, Index hidden)
      : numbers_(rows * (width + hidden) + width * (hidden + 1)) {
    memory_.reset(numbers_, 4);
    a_bar = memory_.take(rows * hidden);
    normal_bar = memory_.take(rows * width);
    w_2 = memory_.take(width * hidden);
    b_2 = memory_.take(width);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }

  T* a_bar;       ///< rho W_2^T w [row][hidden]
  T* normal_bar;  ///< rho W_1^T z_bar [row][width]
  T* w_2;         ///< G = sum_rows w a^T [width][hidden]
  T* b_2;         ///< B = sum_rows w [width]

 private:
  Index numbers_;
  Scratch<T> memory_;
};

/// Tape of the tangent, for the tangent of the adjoint.
template <class T>
class ReactionTangentTape final : public TermTape {
 public:
  /// Room for `rows` rows; the members below hold no values yet.
  ReactionTangentTape(Index rows, Index width, Index hidden) : numbers_(rows * (width + hidden)) {
    memory_.reset(numbers_, 2);
    normal = memory_.take(rows * width);
    inner = memory_.take(rows * hidden);
  }
  std::size_t bytes() const override { return numbers_ * sizeof(T); }

  T* normal;  ///< N_dot [row][width]
  T* inner;   ///< z_dot [row][hidden]

 private:
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
    case Activation::relu:
      for (Index i = 0; i < count; ++i) x[i] += bias[i];
      if (slope != nullptr) {
        for (Index i = 0; i < count; ++i) slope[i] = x[i] > 0 ? T(1) : T(0);
      }
      // A NaN stays one.
      for (Index i = 0; i < count; ++i) x[i] = x[i] < 0 ? T(0) : x[i];
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
void Reaction<T>::inner_input(const ReactionWeights<const T>& weights, const double* u, Index rows,
                              T* normal) const {
  if (settings_.layer_norm) {
    layer_norm(u, width_, rows, width_, weights.eps, weights.gain, weights.bias, normal, width_);
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
void Reaction<T>::hidden_values(const ReactionWeights<const T>& weights, Index rows, const Hidden& hidden) {
  w_1_.apply(rows, hidden.normal, hidden.value);
  const auto at = [](T* all, Index first) { return all != nullptr ? all + first : nullptr; };
  for (Index first = 0; first < rows * hidden_; first += hidden_)
    activate(settings_.activation, weights.b_1, hidden.value + first, at(hidden.slope, first),
             at(hidden.curvature, first), hidden_);
}

template <class T>
void Reaction<T>::add_block(const ReactionWeights<const T>& weights, const double* u, Index rows,
                            const Hidden& hidden, double scale, T* result, const double* base, double* out) {
  inner_input(weights, u, rows, hidden.normal);
  hidden_values(weights, rows, hidden);
  w_2_.apply(rows, hidden.value, result);
  for (Index first = 0; first < rows * width_; first += width_)
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
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    add_block(mine(weights), u + at, rows, {normal, value, nullptr}, scale, result, out + at, out + at);
  });
}

template <class T>
std::unique_ptr<TermTape> Reaction<T>::make_activations() const {
  return std::make_unique<ReactionTape<T>>(context_.rows(), width_, hidden_, Curvatures::none);
}

template <class T>
void Reaction<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                  const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(1);
  auto& keep = dynamic_cast<ReactionTape<T>&>(kept);
  set_maps(mine(weights));
  scratch_.reset(block_ * width_, 1);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    add_block(mine(weights), u + at, rows, keep.at(first), scale, result, base + at, out + at);
  });
}

// out = base + scale rho W_2 (g'(z) . (W_1 N'(u) v))
template <class T>
template <class SlopeOf>
void Reaction<T>::push_forward(const ReactionWeights<const T>& theta, const double* u, const double* v,
                               double scale, const double* base, double* out, SlopeOf&& slope_of) {
  set_maps(theta);
  T* inner = scratch_.take(block_ * width_);
  T* variation = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  over_blocks([&](Index first, Index rows) {
    const Index at = first * width_;
    const T* slope = slope_of(first, rows);
    if (settings_.layer_norm) {
      layer_norm_tangent(u + at, v + at, width_, rows, width_, theta.eps, theta.gain, inner, width_);
    } else {
      round_to(v + at, rows * width_, inner);
    }
    w_1_.apply(rows, inner, variation);
    for (Index i = 0; i < rows * hidden_; ++i) variation[i] *= slope[i];
    w_2_.apply(rows, variation, result);
    simd::set_sum(scale * *theta.rho, result, rows * width_, base + at, out + at);
  });
}

template <class T>
void Reaction<T>::add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                              double scale, double* out) {
  const InPiece piece(Piece::reaction);
  count(2);
  const ReactionWeights<const T>& theta = mine(weights);
  scratch_.reset(block_ * (3 * width_ + 3 * hidden_), 6);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* slope = scratch_.take(block_ * hidden_);
  push_forward(theta, u, v, scale, out, out, [&](Index first, Index rows) {
    inner_input(theta, u + first * width_, rows, normal);
    hidden_values(theta, rows, {normal, value, slope});
    return slope;
  });
}

template <class T>
void Reaction<T>::set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                   double scale, const double* base, double* out, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(1);
  const auto& keep = dynamic_cast<const ReactionTape<T>&>(kept);
  scratch_.reset(block_ * (2 * width_ + hidden_), 3);
  push_forward(mine(weights), u, v, scale, base, out,
               [&](Index first, Index) { return keep.at(first).slope; });
}

namespace {

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

}  // namespace

template <class T>
template <class HiddenOf>
void Reaction<T>::pull_back(const ReactionWeights<const T>& theta, const double* u, const double* w,
                            double scale, const double* base, double* u_bar,
                            const ReactionWeights<double>* bar, ReactionAdjointTape<T>* keep,
                            HiddenOf&& hidden_of) {
  const double factor = scale * *theta.rho;
  const Index matrix_size = hidden_ * width_;
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
    const Hidden known = hidden_of(first, rows);
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
      layer_norm_adjoint(u + at, width_, normal_bar, width_, rows, width_, theta.eps, theta.gain, factor,
                         base + at, u_bar + at, bar != nullptr ? bar->gain : nullptr,
                         bar != nullptr ? bar->bias : nullptr);
    } else {
      simd::set_sum(factor, normal_bar, rows * width_, base + at, u_bar + at);
    }
  });
  if (keep != nullptr) {
    std::copy_n(w_2, matrix_size, keep->w_2);
    std::copy_n(b_2, width_, keep->b_2);
  }
  if (bar == nullptr) return;
  *bar->rho += scale * (inner_product(theta.w_2, w_2, matrix_size) + inner_product(theta.b_2, b_2, width_));
  simd::set_sum(factor, w_1, matrix_size, bar->w_1, bar->w_1);
  simd::set_sum(factor, w_2, matrix_size, bar->w_2, bar->w_2);
  simd::set_sum(factor, b_1, hidden_, bar->b_1, bar->b_1);
  simd::set_sum(factor, b_2, width_, bar->b_2, bar->b_2);
}

template <class T>
void Reaction<T>::add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                              double scale, double* u_bar, const LayerWeights<double>* gradient) {
  const InPiece piece(Piece::reaction);
  count(3);
  const ReactionWeights<const T>& theta = mine(weights);
  scratch_.reset(adjoint_scratch() + block_ * (width_ + 2 * hidden_), 10);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* slope = scratch_.take(block_ * hidden_);
  pull_back(theta, u, w, scale, u_bar, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr, nullptr,
            [&](Index first, Index rows) {
              const Hidden hidden{normal, value, slope};
              inner_input(theta, u + first * width_, rows, normal);
              hidden_values(theta, rows, hidden);
              return hidden;
            });
}

template <class T>
void Reaction<T>::set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                   double scale, const double* base, double* u_bar,
                                   const LayerWeights<double>* gradient, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(2);
  const auto& keep = dynamic_cast<const ReactionTape<T>&>(kept);
  scratch_.reset(adjoint_scratch(), 7);
  pull_back(mine(weights), u, w, scale, base, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr,
            nullptr, [&](Index first, Index) { return keep.at(first); });
}

template <class T>
void Reaction<T>::set_adjoint_linearised(const LayerWeights<const T>& weights, const double* u,
                                         const double* w, double scale, const double* base, double* u_bar,
                                         const LayerWeights<double>* gradient, Linearisation& at) {
  const InPiece piece(Piece::reaction);
  count(2);
  const auto& value = dynamic_cast<const ReactionTape<T>&>(*at.value);
  scratch_.reset(adjoint_scratch(), 7);
  pull_back(mine(weights), u, w, scale, base, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr,
            &dynamic_cast<ReactionAdjointTape<T>&>(*at.adjoint),
            [&](Index first, Index) { return value.at(first); });
}

namespace {

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

/// Arrays of a block of rows, [row][hidden]: z_bar, z_bar_dot (a_bar_dot at first) and a_dot.
template <class T>
struct Varied {
  T* __restrict z_bar, * __restrict z_bar_dot, * __restrict a_dot;
};

/// Computes z_bar, a_dot and z_bar_dot of `out`, and adds the rows of z_bar_dot to `sums`.
template <class T>
void vary(const typename Reaction<T>::Hidden& known, const T* __restrict a_bar, const T* __restrict z_dot,
          Index rows, Index hidden, Varied<T> out, T* __restrict sums) {
  const T* __restrict slope = known.slope;
  const T* __restrict second = known.curvature;
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
Linearisation Reaction<T>::make_linearisation() const {
  const Index rows = context_.rows();
  const auto curvatures = settings_.activation == Activation::relu ? Curvatures::none : Curvatures::kept;
  return {std::make_unique<ReactionTape<T>>(rows, width_, hidden_, curvatures),
          std::make_unique<ReactionAdjointTape<T>>(rows, width_, hidden_),
          std::make_unique<ReactionTangentTape<T>>(rows, width_, hidden_)};
}

template <class T>
void Reaction<T>::set_rhs_linearised(const LayerWeights<const T>& weights, const double* u, double scale,
                                     const double* base, double* out, Linearisation& at) {
  set_rhs_keeping(weights, u, scale, base, out, *at.value);
}

template <class T>
void Reaction<T>::set_gauss_newton(const LayerWeights<const T>& weights, const double* u, const double* w_dot,
                                   double scale, const double* base, double* u_bar_dot,
                                   const LayerWeights<double>& gradient_dot, Linearisation& at) {
  set_adjoint_kept(weights, u, w_dot, scale, base, u_bar_dot, &gradient_dot, *at.value);
}

template <class T>
void Reaction<T>::set_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                              const double* u, const double* u_dot, double scale, const double* base,
                              double* out, Linearisation& at) {
  const InPiece piece(Piece::reaction);
  count(2);
  const ReactionWeights<const T>&theta = mine(weights), &theta_dot = mine(weights_dot);
  const auto& value = dynamic_cast<const ReactionTape<T>&>(*at.value);
  auto& keep = dynamic_cast<ReactionTangentTape<T>&>(*at.tangent);
  const Index matrix_size = hidden_ * width_;
  scratch_.reset(4 * matrix_size + 2 * width_ + block_ * (3 * width_ + hidden_), 6);
  T* w_1 = scratch_.take(2 * matrix_size);
  T* w_2 = scratch_.take(2 * matrix_size);
  T* b_2 = scratch_.take(2 * width_);
  T* normals = scratch_.take(block_ * 2 * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  beside(theta.w_1, theta_dot.w_1, hidden_, width_, w_1);
  vary_product(*theta.rho, *theta_dot.rho, theta.w_2, theta_dot.w_2, matrix_size, w_2);
  vary_product(*theta.rho, *theta_dot.rho, theta.b_2, theta_dot.b_2, width_, b_2);
  over_blocks([&](Index first, Index rows) {
    const Index at_row = first * width_;
    const Hidden known = value.at(first);
    T* normal_dot = keep.normal + at_row;
    T* z_dot = keep.inner + first * hidden_;
    if (settings_.layer_norm)
      layer_norm_full_tangent(u + at_row, u_dot + at_row, width_, rows, width_, theta.eps, theta.gain,
                              theta_dot.gain, theta_dot.bias, normal_dot, width_);
    else
      round_to(u_dot + at_row, rows * width_, normal_dot);
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
    simd::set_sum(scale, result, rows * width_, base + at_row, out + at_row);
  });
}

template <class T>
void Reaction<T>::set_adjoint_tangent(const LayerWeights<const T>& weights,
                                      const LayerWeights<const T>& weights_dot, const double* u,
                                      const double* u_dot, const double* w, const double* w_dot, double scale,
                                      const double* base, double* u_bar_dot,
                                      const LayerWeights<double>& gradient_dot, Linearisation& at) {
  const InPiece piece(Piece::reaction);
  count(4);
  const ReactionWeights<const T>&theta = mine(weights), &theta_dot = mine(weights_dot);
  const ReactionWeights<double>& bar = mine(gradient_dot);
  const auto& value = dynamic_cast<const ReactionTape<T>&>(*at.value);
  const auto& adjoint = dynamic_cast<const ReactionAdjointTape<T>&>(*at.adjoint);
  const auto& tangent = dynamic_cast<const ReactionTangentTape<T>&>(*at.tangent);
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
    beside(w_dot + at_row, w + at_row, rows, width_, seeds);
    const auto both = row_major<const T>(seeds, rows, 2 * width_);
    const auto seed_dot = both.leftCols(width_), seed = both.rightCols(width_);
    set_product(row_major<T>(varied.z_bar_dot, rows, hidden_), both,
                row_major<const T>(w_2, 2 * width_, hidden_));  // a_bar_dot
    vary(known, adjoint.a_bar + first * hidden_, tangent.inner + first * hidden_, rows, hidden_, varied,
         b_1_bar);
    for (Index r = 0; r < rows; ++r) simd::add_rows(seeds + 2 * r * width_, 1, width_, b_2_bar);
    // G_dot += w_dot a^T + w a_dot^T
    auto w_2_sum = row_major(w_2_bar, width_, hidden_);
    set_product(w_2_sum, seed_dot.transpose(), hidden(known.value), InsertMode::add);
    set_product(w_2_sum, seed.transpose(), hidden(varied.a_dot), InsertMode::add);
    // W_1_bar_dot += z_bar_dot N^T + z_bar N_dot^T
    auto w_1_sum = row_major(w_1_bar, hidden_, width_);
    set_product(w_1_sum, hidden(varied.z_bar_dot).transpose(), normal(known.normal), InsertMode::add);
    set_product(w_1_sum, hidden(varied.z_bar).transpose(), normal(tangent.normal + at_row), InsertMode::add);
    // N_bar_dot = W_1^T z_bar_dot + W_1_dot^T z_bar
    auto normal_sum = row_major(normal_bar_dot, rows, width_);
    set_product(normal_sum, hidden(varied.z_bar_dot), row_major(theta.w_1, hidden_, width_));
    set_product(normal_sum, hidden(varied.z_bar), row_major(theta_dot.w_1, hidden_, width_), InsertMode::add);
    if (settings_.layer_norm)
      layer_norm_adjoint_tangent(u + at_row, u_dot + at_row, width_, adjoint.normal_bar + at_row,
                                 normal_bar_dot, width_, rows, width_, theta.eps, theta.gain, theta_dot.gain,
                                 scale, base + at_row, u_bar_dot + at_row, bar.gain, bar.bias);
    else
      simd::set_sum(scale, normal_bar_dot, rows * width_, base + at_row, u_bar_dot + at_row);
  });
  *bar.rho +=
      scale * (inner_product(theta.w_2, w_2_bar, matrix_size) +
               inner_product(theta_dot.w_2, adjoint.w_2, matrix_size) +
               inner_product(theta.b_2, b_2_bar, width_) + inner_product(theta_dot.b_2, adjoint.b_2, width_));
  simd::set_sum(scale, w_1_bar, matrix_size, bar.w_1, bar.w_1);
  simd::set_sum(scale, b_1_bar, hidden_, bar.b_1, bar.b_1);
  simd::set_sum(scale * *theta.rho, w_2_bar, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(scale * *theta_dot.rho, adjoint.w_2, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(scale * *theta.rho, b_2_bar, width_, bar.b_2, bar.b_2);
  simd::set_sum(scale * *theta_dot.rho, adjoint.b_2, width_, bar.b_2, bar.b_2);
}

template class Reaction<float>;
template class Reaction<double>;

}  // namespace fluxformer
