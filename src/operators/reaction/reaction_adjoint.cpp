// J^T w and the gradient with respect to the parameters, block by block of rows:
//
//   z = W_1 N(u) + b_1      p = (W_2^T w) . g'(z)
//
//   u_bar   += rho N'(u)^T W_1^T p
//   W_1_bar += rho sum_rows p N(u)^T        b_1_bar += rho sum_rows p
//   W_2_bar += rho sum_rows w g(z)^T        b_2_bar += rho sum_rows w
//   rho_bar += <W_2, sum_rows w g(z)^T> + <b_2, sum_rows w>
//
// Sums over rows are taken in T and added to the gradient once.

#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm.hpp"
#include "operators/reaction/reaction_work.hpp"

namespace fluxformer {
namespace {

/// x *= factor, and sums += the rows of the result.
template <class T>
void multiply_and_add_rows(const T* __restrict factor, std::size_t rows, std::size_t width, T* __restrict x,
                           T* __restrict sums) {
  for (std::size_t r = 0; r < rows; ++r, x += width, factor += width)
    for (std::size_t j = 0; j < width; ++j) {
      x[j] *= factor[j];
      sums[j] += x[j];
    }
}

}  // namespace

template <class T>
template <class HiddenOf>
void Reaction<T>::pull_back(const ReactionWeights<const T>& p, const double* u, const double* w, double scale,
                            const double* base, double* u_bar, const ReactionWeights<double>* bar,
                            ReactionAdjoint<T>* keep, HiddenOf&& hidden_of) {
  const double factor = scale * *p.rho;
  const std::size_t matrix_size = hidden_ * width_;
  T* seed = scratch_.take(block_ * width_);
  T* pulled = scratch_.take(block_ * hidden_);
  T* normal_bar = scratch_.take(block_ * width_);
  T* w_1 = scratch_.take(matrix_size);
  T* w_2 = scratch_.take(matrix_size);
  T* b_1 = scratch_.take(hidden_);
  T* b_2 = scratch_.take(width_);
  set_maps(p);
  std::fill_n(b_1, hidden_, T(0));
  std::fill_n(b_2, width_, T(0));
  std::fill_n(w_1, matrix_size, T(0));
  std::fill_n(w_2, matrix_size, T(0));
  over_blocks([&](std::size_t first, std::size_t rows) {
    const std::size_t at = first * width_;
    const Hidden known = hidden_of(first, rows);
    round_to(w + at, rows * width_, seed);
    w_2_.apply_transpose(rows, seed, InsertMode::insert, pulled);
    if (keep != nullptr) scaled(*p.rho, pulled, rows * hidden_, keep->pulled + first * hidden_);
    multiply_and_add_rows(known.slope, rows, hidden_, pulled, b_1);
    if (bar != nullptr || keep != nullptr) {
      simd::add_rows(seed, rows, width_, b_2);
      w_2_.add_gradient(rows, seed, known.value, w_2);
      w_1_.add_gradient(rows, pulled, known.normal, w_1);
    }
    w_1_.apply_transpose(rows, pulled, InsertMode::insert, normal_bar);
    if (keep != nullptr) scaled(*p.rho, normal_bar, rows * width_, keep->normal_bar + at);
    if (settings_.layer_norm) {
      layer_norm_adjoint(u + at, width_, normal_bar, width_, static_cast<int>(rows), context_.width, p.eps,
                         p.gain, factor, base + at, u_bar + at, bar != nullptr ? bar->gain : nullptr,
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
  *bar->rho += scale * (inner_product(p.w_2, w_2, matrix_size) + inner_product(p.b_2, b_2, width_));
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
  const ReactionWeights<const T>& p = mine(weights);
  scratch_.reset(adjoint_scratch() + block_ * (width_ + 2 * hidden_), 10);
  T* normal = scratch_.take(block_ * width_);
  T* value = scratch_.take(block_ * hidden_);
  T* slope = scratch_.take(block_ * hidden_);
  pull_back(p, u, w, scale, u_bar, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr, nullptr,
            [&](std::size_t first, std::size_t rows) {
              const Hidden hidden{normal, value, slope};
              inner_input(p, u + first * width_, rows, normal);
              hidden_values(p, rows, hidden);
              return hidden;
            });
}

template <class T>
void Reaction<T>::set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                   double scale, const double* base, double* u_bar,
                                   const LayerWeights<double>* gradient, TermTape& kept) {
  const InPiece piece(Piece::reaction);
  count(2);
  const auto& keep = dynamic_cast<const ReactionActivations<T>&>(kept);
  scratch_.reset(adjoint_scratch(), 7);
  pull_back(mine(weights), u, w, scale, base, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr,
            nullptr, [&](std::size_t first, std::size_t) { return keep.at(first); });
}

template <class T>
void Reaction<T>::set_adjoint_linearised(const LayerWeights<const T>& weights, const double* u,
                                         const double* w, double scale, const double* base, double* u_bar,
                                         const LayerWeights<double>* gradient, Linearisation& at) {
  const InPiece piece(Piece::reaction);
  count(2);
  const auto& value = dynamic_cast<const ReactionActivations<T>&>(*at.value);
  scratch_.reset(adjoint_scratch(), 7);
  pull_back(mine(weights), u, w, scale, base, u_bar, gradient != nullptr ? &mine(*gradient) : nullptr,
            &dynamic_cast<ReactionAdjoint<T>&>(*at.adjoint),
            [&](std::size_t first, std::size_t) { return value.at(first); });
}

#define FLUXFORMER_INSTANTIATE(T)                                                                            \
  template void Reaction<T>::add_adjoint(const LayerWeights<const T>&, const double*, const double*, double, \
                                         double*, const LayerWeights<double>*);                              \
  template void Reaction<T>::set_adjoint_kept(const LayerWeights<const T>&, const double*, const double*,    \
                                              double, const double*, double*, const LayerWeights<double>*,   \
                                              TermTape&);                                                    \
  template void Reaction<T>::set_adjoint_linearised(const LayerWeights<const T>&, const double*,             \
                                                    const double*, double, const double*, double*,           \
                                                    const LayerWeights<double>*, Linearisation&);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
