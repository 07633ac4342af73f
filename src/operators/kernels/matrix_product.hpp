#pragma once

// Products of matrices that are seen through Eigen: maps of memory, their blocks and transposes.

#include <Eigen/Core>
#include <cstddef>
#include <type_traits>

#include "operators/kernels/product.hpp"

namespace fluxformer {

/// A row-major matrix, rows `stride` apart; nothing is copied.
template <class T>
auto row_major(T* data, std::size_t rows, std::size_t columns, std::size_t stride) {
  using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Seen = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Seen, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(stride));
}
/// The same without gaps between rows.
template <class T>
auto row_major(T* data, std::size_t rows, std::size_t columns) {
  return row_major(data, rows, columns, columns);
}

/// y := a b, or y += a b, where y is row-major; nothing is copied.
template <class Y, class A, class B>
void set_product(Y&& y, const A& a, const B& b, InsertMode into = InsertMode::insert) {
  static_assert(std::remove_cvref_t<Y>::IsRowMajor);
  constexpr auto stored = [](bool row_major) { return row_major ? Stored::plain : Stored::transposed; };
  Product<typename A::Scalar>()({.rows = static_cast<int>(y.rows()),
                                 .columns = static_cast<int>(y.cols()),
                                 .depth = static_cast<int>(a.cols()),
                                 .a_stride = static_cast<int>(a.outerStride()),
                                 .b_stride = static_cast<int>(b.outerStride()),
                                 .c_stride = static_cast<int>(y.outerStride()),
                                 .a = stored(A::IsRowMajor),
                                 .b = stored(B::IsRowMajor),
                                 .into = into},
                                a.data(), b.data(), y.data());
}

}  // namespace fluxformer
