#pragma once

// Products of matrices that are seen through Eigen: maps of memory, their blocks and transposes.

#include <Eigen/Core>
#include <type_traits>

#include "base/index.hpp"
#include "operators/kernels/product.hpp"

namespace fluxformer {

/// A row-major matrix over memory that exists, rows `stride` apart; nothing is copied.
template <class T>
auto row_major(T* data, Index rows, Index columns, Index stride) {
  using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Seen = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Seen, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(stride));
}
/// A row-major matrix over memory that exists, without gaps between rows; nothing is copied.
template <class T>
auto row_major(T* data, Index rows, Index columns) {
  return row_major(data, rows, columns, columns);
}

/// y := a b, or y += a b, where y is row-major; nothing is copied.
template <class Y, class A, class B>
void set_product(Y&& y, const A& a, const B& b, InsertMode into = InsertMode::insert) {
  static_assert(std::remove_cvref_t<Y>::IsRowMajor);
  constexpr auto stored = [](bool row_major) { return row_major ? Stored::plain : Stored::transposed; };
  Product<typename A::Scalar>()({.rows = y.rows(),
                                 .columns = y.cols(),
                                 .depth = a.cols(),
                                 .a_stride = a.outerStride(),
                                 .b_stride = b.outerStride(),
                                 .c_stride = y.outerStride(),
                                 .a = stored(A::IsRowMajor),
                                 .b = stored(B::IsRowMajor),
                                 .into = into},
                                a.data(), b.data(), y.data());
}

/// y := a b_dot + a_dot b, the variation of the product a b.
template <class Y, class A, class B>
void set_product_rule(Y&& y, const A& a, const A& a_dot, const B& b, const B& b_dot) {
  set_product(y, a, b_dot);
  set_product(y, a_dot, b, InsertMode::add);
}

/// The sum of x[i] y[i], taken in double.
template <class S, class T>
double inner_product(const S* x, const T* y, Index count) {
  double total = 0;
  for (Index i = 0; i < count; ++i) total += static_cast<double>(x[i]) * y[i];
  return total;
}

}  // namespace fluxformer
