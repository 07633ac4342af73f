#pragma once

// Products of matrices that are seen through Eigen: maps of memory, their blocks and transposes.

#include <type_traits>

#include "operators/kernels/product.hpp"

namespace fluxformer {

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
