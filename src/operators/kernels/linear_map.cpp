#include "operators/kernels/linear_map.hpp"

#include <stdexcept>
#include <type_traits>

#include "operators/kernels/product.hpp"

namespace fluxformer {

template <class T>
LinearMap<T>::LinearMap(Operands operands) {
  if (operands == Operands::exact) return;
  if constexpr (!std::is_same_v<T, float>) throw std::logic_error("only floats are rounded to bfloat16");
  rounded_.emplace(operands == Operands::bfloat16 ? Bfloat16Product::By::processor
                                                  : Bfloat16Product::By::floats);
}

template <class T>
void LinearMap<T>::set(const T* w, Index out, Index in) {
  w_ = w;
  out_ = out;
  in_ = in;
  // Transposed or rounded copies of the matrix before are out of date.
  forward_is_set_ = backward_is_set_ = false;
}

template <class T>
void LinearMap<T>::apply(Index rows, Stored stored, const T* x, Index x_stride, T* y) {
  // Mixed precision: both factors are rounded to bfloat16, W once for all calls, and sums are taken in float
  // (docs/model.md, section 3).
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->forward;
      if (!forward_is_set_) product.set_right(in_, out_, Stored::transposed, w_, in_);
      forward_is_set_ = true;
      return product(rows, stored, x, x_stride, InsertMode::insert, y, out_);
    }
  // y = x W^T: a kernel wants W^T as it stands in memory; larger products turn W by themselves.
  const bool by_kernel = has_kernel<T>(in_, out_);
  if (by_kernel && !forward_is_set_) {
    transposed_.resize(in_ * out_);
    transpose(w_, out_, in_, in_, transposed_.data(), out_);
    forward_is_set_ = true;
  }
  forward_({.rows = rows,
            .columns = out_,
            .depth = in_,
            .a_stride = x_stride,
            .b_stride = by_kernel ? out_ : in_,
            .c_stride = out_,
            .a = stored,
            .b = by_kernel ? Stored::plain : Stored::transposed},
           x, by_kernel ? transposed_.data() : w_, y);
}

template <class T>
void LinearMap<T>::apply_transpose(Index rows, Stored stored, const T* y, Index y_stride, InsertMode into,
                                   T* x) {
  // x = y W: the map with W^T
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->backward;
      if (!backward_is_set_) product.set_right(out_, in_, Stored::plain, w_, in_);
      backward_is_set_ = true;
      return product(rows, stored, y, y_stride, into, x, in_);
    }
  backward_({.rows = rows,
             .columns = in_,
             .depth = out_,
             .a_stride = y_stride,
             .b_stride = in_,
             .c_stride = in_,
             .a = stored,
             .into = into},
            y, w_, x);
}

template <class T>
void LinearMap<T>::row_products(Index rows, Stored stored, const T* a, Index a_columns, Index a_stride,
                                const T* b, Index b_columns, InsertMode into, T* g) {
  // g = a^T b, summed over rows; mixed precision rounds both factors anew in each call
  const Stored a_transposed = stored == Stored::plain ? Stored::transposed : Stored::plain;
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->gradient;
      product.set_right(rows, b_columns, Stored::plain, b, b_columns);
      return product(a_columns, a_transposed, a, a_stride, into, g, b_columns);
    }
  gradient_({.rows = a_columns,
             .columns = b_columns,
             .depth = rows,
             .a_stride = a_stride,
             .b_stride = b_columns,
             .c_stride = b_columns,
             .a = a_transposed,
             .into = into},
            a, b, g);
}

template <class T>
std::size_t LinearMap<T>::bytes() const {
  std::size_t total = transposed_.capacity() * sizeof(T);
  if (rounded_) total += rounded_->forward.bytes() + rounded_->backward.bytes() + rounded_->gradient.bytes();
  return total;
}

template class LinearMap<float>;
template class LinearMap<double>;

}  // namespace fluxformer
