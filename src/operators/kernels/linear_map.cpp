#include "operators/kernels/linear_map.hpp"

#include <stdexcept>
#include <type_traits>

#include "operators/kernels/transpose.hpp"

namespace fluxformer {

template <class T>
LinearMap<T>::LinearMap(Operands operands) {
  if (operands == Operands::exact) return;
  if constexpr (!std::is_same_v<T, float>) throw std::logic_error("only floats are rounded to bfloat16");
  rounded_.emplace(operands == Operands::bfloat16 ? Bfloat16Product::By::processor
                                                  : Bfloat16Product::By::floats);
}

template <class T>
void LinearMap<T>::set(const T* w, std::size_t out, std::size_t in) {
  w_ = w;
  out_ = out;
  in_ = in;
  forward_is_set_ = backward_is_set_ = false;
}

template <class T>
void LinearMap<T>::apply(std::size_t rows, Stored stored, const T* x, std::size_t x_stride, T* y) {
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->forward;
      if (!forward_is_set_) product.set_right(in_, out_, Stored::transposed, w_, in_);
      forward_is_set_ = true;
      return product(rows, stored, x, x_stride, InsertMode::insert, y, out_);
    }
  const bool turned = has_kernel<T>(in_, out_);
  if (turned && !forward_is_set_) {
    turned_.resize(in_ * out_);
    transpose(w_, out_, in_, in_, turned_.data(), out_);
    forward_is_set_ = true;
  }
  forward_({.rows = static_cast<int>(rows),
            .columns = static_cast<int>(out_),
            .depth = static_cast<int>(in_),
            .a_stride = static_cast<int>(x_stride),
            .b_stride = static_cast<int>(turned ? out_ : in_),
            .c_stride = static_cast<int>(out_),
            .a = stored,
            .b = turned ? Stored::plain : Stored::transposed},
           x, turned ? turned_.data() : w_, y);
}

template <class T>
void LinearMap<T>::apply_transpose(std::size_t rows, Stored stored, const T* y, std::size_t y_stride,
                                   InsertMode into, T* x) {
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->backward;
      if (!backward_is_set_) product.set_right(out_, in_, Stored::plain, w_, in_);
      backward_is_set_ = true;
      return product(rows, stored, y, y_stride, into, x, in_);
    }
  backward_({.rows = static_cast<int>(rows),
             .columns = static_cast<int>(in_),
             .depth = static_cast<int>(out_),
             .a_stride = static_cast<int>(y_stride),
             .b_stride = static_cast<int>(in_),
             .c_stride = static_cast<int>(in_),
             .a = stored,
             .into = into},
            y, w_, x);
}

template <class T>
void LinearMap<T>::gradient(std::size_t rows, Stored stored, const T* y, std::size_t y_stride, const T* x,
                            InsertMode into, T* g) {
  const Stored turned = stored == Stored::plain ? Stored::transposed : Stored::plain;
  if constexpr (std::is_same_v<T, float>)
    if (rounded_) {
      auto& product = rounded_->gradient;
      product.set_right(rows, in_, Stored::plain, x, in_);
      return product(out_, turned, y, y_stride, into, g, in_);
    }
  gradient_({.rows = static_cast<int>(out_),
             .columns = static_cast<int>(in_),
             .depth = static_cast<int>(rows),
             .a_stride = static_cast<int>(y_stride),
             .b_stride = static_cast<int>(in_),
             .c_stride = static_cast<int>(in_),
             .a = turned,
             .into = into},
            y, x, g);
}

template <class T>
std::size_t LinearMap<T>::bytes() const {
  std::size_t total = turned_.capacity() * sizeof(T);
  if (rounded_) total += rounded_->forward.bytes() + rounded_->backward.bytes() + rounded_->gradient.bytes();
  return total;
}

template class LinearMap<float>;
template class LinearMap<double>;

}  // namespace fluxformer
