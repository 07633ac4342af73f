#include "operators/kernels/linear_map.hpp"

#include "operators/kernels/turn.hpp"

namespace fluxformer {

template <class T>
void LinearMap<T>::set(const T* w, std::size_t out, std::size_t in) {
  w_ = w;
  out_ = out;
  in_ = in;
  is_turned_ = has_kernel<T>(in, out);
  if (!is_turned_) return;
  turned_.resize(in * out);
  turn(w, out, in, in, turned_.data(), out);
}

template <class T>
void LinearMap<T>::apply(std::size_t rows, Stored stored, const T* x, std::size_t x_stride, std::size_t first,
                         std::size_t count, T* y, std::size_t y_stride) {
  forward_({.rows = static_cast<int>(rows),
            .columns = static_cast<int>(count),
            .depth = static_cast<int>(in_),
            .a_stride = static_cast<int>(x_stride),
            .b_stride = static_cast<int>(is_turned_ ? out_ : in_),
            .c_stride = static_cast<int>(y_stride),
            .a = stored,
            .b = is_turned_ ? Stored::plain : Stored::transposed},
           x, is_turned_ ? turned_.data() + first : w_ + first * in_, y);
}

template <class T>
void LinearMap<T>::apply_transpose(std::size_t rows, const T* y, Into into, T* x) {
  const int in = static_cast<int>(in_), out = static_cast<int>(out_);
  backward_({.rows = static_cast<int>(rows),
             .columns = in,
             .depth = out,
             .a_stride = out,
             .b_stride = in,
             .c_stride = in,
             .into = into},
            y, w_, x);
}

template <class T>
void LinearMap<T>::add_gradient(std::size_t rows, const T* y, const T* x, T* g) {
  const int in = static_cast<int>(in_), out = static_cast<int>(out_);
  gradient_({.rows = out,
             .columns = in,
             .depth = static_cast<int>(rows),
             .a_stride = out,
             .b_stride = in,
             .c_stride = in,
             .a = Stored::transposed,
             .into = Into::add},
            y, x, g);
}

template class LinearMap<float>;
template class LinearMap<double>;

}  // namespace fluxformer
