#pragma once

// Matrices over memory that exists, seen through Eigen.

#include <Eigen/Core>
#include <cstddef>
#include <type_traits>

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

}  // namespace fluxformer
