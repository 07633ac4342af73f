// The network along a direction, and the tangent of its adjoint. With rho moved into the outer weights,
// W = rho W_2, b = rho b_2, W_dot = rho W_2_dot + rho_dot W_2 and so on, a = g(z), s = W^T w, p = s . g'(z):
//
//   z_dot = W_1 N_dot + W_1_dot N + b_1_dot       a_dot = g'(z) . z_dot
//   t     = W a_dot + W_dot a + b_dot
//
//   s_dot = W^T w_dot + W_dot^T w                 p_dot = s_dot . g'(z) + s . g''(z) . z_dot
//   N_bar_dot   = W_1^T p_dot + W_1_dot^T p
//   W_1_bar_dot = sum_rows p_dot N^T + p N_dot^T  b_1_bar_dot = sum_rows p_dot
//   G_dot       = sum_rows w_dot a^T + w a_dot^T  B_dot       = sum_rows w_dot
//
// With G = sum_rows w a^T and B = sum_rows w of the adjoint,
//
//   W_2_bar_dot = rho G_dot + rho_dot G           b_2_bar_dot = rho B_dot + rho_dot B
//   rho_bar_dot = <W_2, G_dot> + <W_2_dot, G> + <b_2, B_dot> + <b_2_dot, B>
//
// Products: 4 in the tangent and 8 in the adjoint's, twice those of the value (2) and its adjoint (4).

#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm_second_order.hpp"
#include "operators/reaction/reaction_work.hpp"

namespace fluxformer {
namespace {

/// W and W_dot, one after the other; `rho` and `rho_dot` of x = w_2 or b_2.
template <class T>
void vary_product(double rho, double rho_dot, const T* x, const T* x_dot, std::size_t count, T* product) {
  scaled(rho, x, count, product);
  T* __restrict product_dot = product + count;
  const T factor = static_cast<T>(rho), factor_dot = static_cast<T>(rho_dot);
  for (std::size_t i = 0; i < count; ++i) product_dot[i] = factor * x_dot[i] + factor_dot * x[i];
}

/// out[r] := (left[r], right[r]): one product with stacked weights instead of two short ones.
template <class P, class T>
void beside(const P* left, const P* right, std::size_t rows, std::size_t width, T* out) {
  for (std::size_t r = 0; r < rows; ++r, left += width, right += width, out += 2 * width) {
    for (std::size_t j = 0; j < width; ++j) out[j] = static_cast<T>(left[j]);
    for (std::size_t j = 0; j < width; ++j) out[width + j] = static_cast<T>(right[j]);
  }
}

/// Of a block of rows, [row][hidden]: p, p_dot (s_dot at first) and a_dot.
template <class T>
struct Varied {
  T* __restrict p, * __restrict p_dot, * __restrict a_dot;
};

/// Fills `out`, and sums += the rows of p_dot.
template <class T>
void vary(const typename Reaction<T>::Hidden& known, const T* __restrict s, const T* __restrict z_dot,
          std::size_t rows, std::size_t hidden, Varied<T> out, T* __restrict sums) {
  const T* __restrict slope = known.slope;
  const T* __restrict second = known.curvature;
  for (std::size_t first = 0; first < rows * hidden; first += hidden)
    for (std::size_t j = 0; j < hidden; ++j) {
      const std::size_t i = first + j;
      out.p[i] = s[i] * slope[i];
      out.a_dot[i] = slope[i] * z_dot[i];
      const T curvature = second != nullptr ? second[i] * z_dot[i] : T(0);
      out.p_dot[i] = out.p_dot[i] * slope[i] + s[i] * curvature;
      sums[j] += out.p_dot[i];
    }
}

}  // namespace

template <class T>
Linearisation Reaction<T>::make_linearisation() const {
  const auto rows = static_cast<std::size_t>(context_.rows());
  const auto curvatures = settings_.activation == Activation::relu ? Curvatures::none : Curvatures::kept;
  return {std::make_unique<ReactionActivations<T>>(rows, width_, hidden_, curvatures),
          std::make_unique<ReactionAdjoint<T>>(rows, width_, hidden_),
          std::make_unique<ReactionTangent<T>>(rows, width_, hidden_)};
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
  const ReactionWeights<const T>&w = mine(weights), &v = mine(weights_dot);
  const auto& value = dynamic_cast<const ReactionActivations<T>&>(*at.value);
  auto& keep = dynamic_cast<ReactionTangent<T>&>(*at.tangent);
  const std::size_t matrix_size = hidden_ * width_;
  scratch_.reset(4 * matrix_size + 2 * width_ + block_ * (3 * width_ + hidden_), 6);
  T* w_1 = scratch_.take(2 * matrix_size);
  T* w_2 = scratch_.take(2 * matrix_size);
  T* b_2 = scratch_.take(2 * width_);
  T* normals = scratch_.take(block_ * 2 * width_);
  T* a_dot = scratch_.take(block_ * hidden_);
  T* result = scratch_.take(block_ * width_);
  beside(w.w_1, v.w_1, hidden_, width_, w_1);
  vary_product(*w.rho, *v.rho, w.w_2, v.w_2, matrix_size, w_2);
  vary_product(*w.rho, *v.rho, w.b_2, v.b_2, width_, b_2);
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at_row = first * width_;
    const Hidden known = value.at(first);
    T* normal_dot = keep.normal + at_row;
    T* z_dot = keep.inner + first * hidden_;
    if (settings_.layer_norm)
      layer_norm_full_tangent(u + at_row, u_dot + at_row, width_, static_cast<int>(rows), context_.width,
                              w.eps, w.gain, v.gain, v.bias, normal_dot, width_);
    else
      round_to(u_dot + at_row, rows * width_, normal_dot);
    beside(normal_dot, known.normal, rows, width_, normals);
    repeat_row(v.b_1, rows, hidden_, z_dot);
    set_product(row_major(z_dot, rows, hidden_), row_major<const T>(normals, rows, 2 * width_),
                row_major<const T>(w_1, hidden_, 2 * width_).transpose(), InsertMode::add);
    for (std::size_t i = 0; i < rows * hidden_; ++i) a_dot[i] = known.slope[i] * z_dot[i];
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
  const ReactionWeights<const T>&p = mine(weights), &v = mine(weights_dot);
  const ReactionWeights<double>& bar = mine(gradient_dot);
  const auto& value = dynamic_cast<const ReactionActivations<T>&>(*at.value);
  const auto& adjoint = dynamic_cast<const ReactionAdjoint<T>&>(*at.adjoint);
  const auto& tangent = dynamic_cast<const ReactionTangent<T>&>(*at.tangent);
  const std::size_t matrix_size = hidden_ * width_;
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
  vary_product(*p.rho, *v.rho, p.w_2, v.w_2, matrix_size, w_2);
  std::fill_n(w_1_bar, matrix_size, T(0));
  std::fill_n(w_2_bar, matrix_size, T(0));
  std::fill_n(b_1_bar, hidden_, T(0));
  std::fill_n(b_2_bar, width_, T(0));
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at_row = first * width_;
    const Hidden known = value.at(first);
    const auto hidden = [&](const T* x) { return row_major(x, rows, hidden_); };
    const auto normal = [&](const T* x) { return row_major(x, rows, width_); };
    beside(w_dot + at_row, w + at_row, rows, width_, seeds);
    const auto both = row_major<const T>(seeds, rows, 2 * width_);
    const auto d = static_cast<Eigen::Index>(width_);
    const auto seed_dot = both.leftCols(d), seed = both.rightCols(d);
    set_product(row_major<T>(varied.p_dot, rows, hidden_), both,
                row_major<const T>(w_2, 2 * width_, hidden_));  // s_dot
    vary(known, adjoint.pulled + first * hidden_, tangent.inner + first * hidden_, rows, hidden_, varied,
         b_1_bar);
    for (std::size_t r = 0; r < rows; ++r) simd::add_rows(seeds + 2 * r * width_, 1, width_, b_2_bar);
    auto w_2_sum = row_major(w_2_bar, width_, hidden_);
    set_product(w_2_sum, seed_dot.transpose(), hidden(known.value), InsertMode::add);
    set_product(w_2_sum, seed.transpose(), hidden(varied.a_dot), InsertMode::add);
    auto w_1_sum = row_major(w_1_bar, hidden_, width_);
    set_product(w_1_sum, hidden(varied.p_dot).transpose(), normal(known.normal), InsertMode::add);
    set_product(w_1_sum, hidden(varied.p).transpose(), normal(tangent.normal + at_row), InsertMode::add);
    auto pulled = row_major(normal_bar_dot, rows, width_);
    set_product(pulled, hidden(varied.p_dot), row_major(p.w_1, hidden_, width_));
    set_product(pulled, hidden(varied.p), row_major(v.w_1, hidden_, width_), InsertMode::add);
    if (settings_.layer_norm)
      layer_norm_adjoint_tangent(u + at_row, u_dot + at_row, width_, adjoint.normal_bar + at_row,
                                 normal_bar_dot, width_, static_cast<int>(rows), context_.width, p.eps,
                                 p.gain, v.gain, scale, base + at_row, u_bar_dot + at_row, bar.gain,
                                 bar.bias);
    else
      simd::set_sum(scale, normal_bar_dot, rows * width_, base + at_row, u_bar_dot + at_row);
  });
  *bar.rho +=
      scale * (inner_product(p.w_2, w_2_bar, matrix_size) + inner_product(v.w_2, adjoint.w_2, matrix_size) +
               inner_product(p.b_2, b_2_bar, width_) + inner_product(v.b_2, adjoint.b_2, width_));
  simd::set_sum(scale, w_1_bar, matrix_size, bar.w_1, bar.w_1);
  simd::set_sum(scale, b_1_bar, hidden_, bar.b_1, bar.b_1);
  simd::set_sum(scale * *p.rho, w_2_bar, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(scale * *v.rho, adjoint.w_2, matrix_size, bar.w_2, bar.w_2);
  simd::set_sum(scale * *p.rho, b_2_bar, width_, bar.b_2, bar.b_2);
  simd::set_sum(scale * *v.rho, adjoint.b_2, width_, bar.b_2, bar.b_2);
}

#define FLUXFORMER_INSTANTIATE(T)                                                                            \
  template Linearisation Reaction<T>::make_linearisation() const;                                            \
  template void Reaction<T>::set_rhs_linearised(const LayerWeights<const T>&, const double*, double,         \
                                                const double*, double*, Linearisation&);                     \
  template void Reaction<T>::set_gauss_newton(const LayerWeights<const T>&, const double*, const double*,    \
                                              double, const double*, double*, const LayerWeights<double>&,   \
                                              Linearisation&);                                               \
  template void Reaction<T>::set_tangent(const LayerWeights<const T>&, const LayerWeights<const T>&,         \
                                         const double*, const double*, double, const double*, double*,       \
                                         Linearisation&);                                                    \
  template void Reaction<T>::set_adjoint_tangent(const LayerWeights<const T>&, const LayerWeights<const T>&, \
                                                 const double*, const double*, const double*, const double*, \
                                                 double, const double*, double*,                             \
                                                 const LayerWeights<double>&, Linearisation&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
