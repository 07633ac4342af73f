#include "operators/kernels/transpose.hpp"

#include <algorithm>

#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

using simd::lanes;
using simd::Vector;

/// Exchanges, in each pair of rows `half` apart, the upper lanes of the one with the lower lanes of the other.
template <class T, std::size_t half, std::size_t... lane>
void exchange(Vector<T>& a, Vector<T>& b, std::index_sequence<lane...> /*all*/) {
  constexpr std::size_t other = lanes<T>;  // lanes of the second argument of a shuffle
  const Vector<T> low =
      __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane : lane + half)...);
  a = low;
}

template <class T, std::size_t half>
void exchange_all(Vector<T> (&block)[lanes<T>]) {
#pragma GCC unroll 16
  for (std::size_t i = 0; i < lanes<T>; ++i)
    if ((i & half) == 0) exchange<T, half>(block[i], block[i + half], std::make_index_sequence<lanes<T>>{});
  if constexpr (half > 1) exchange_all<T, half / 2>(block);
}

/// At most `lanes` rows and columns.
template <class T>
void turn_block(const T* a, std::size_t rows, std::size_t columns, std::size_t a_stride, T* out,
                std::size_t out_stride) {
  constexpr std::size_t width = lanes<T>;
  Vector<T> block[width];
  if (rows == width && columns == width) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < width; ++i) block[i] = simd::load(a + i * a_stride);
    exchange_all<T, width / 2>(block);
#pragma GCC unroll 16
    for (std::size_t j = 0; j < width; ++j) simd::store(out + j * out_stride, block[j]);
    return;
  }
  for (std::size_t i = 0; i < width; ++i)
    block[i] = i < rows ? simd::load_part(a + i * a_stride, columns) : Vector<T>{};
  exchange_all<T, width / 2>(block);
  for (std::size_t j = 0; j < columns; ++j) simd::store_part<T>(out + j * out_stride, block[j], rows);
}

}  // namespace

template <class T>
void transpose(const T* a, std::size_t rows, std::size_t columns, std::size_t a_stride, T* out,
               std::size_t out_stride) {
  constexpr std::size_t width = lanes<T>;
  for (std::size_t i = 0; i < rows; i += width)
    for (std::size_t j = 0; j < columns; j += width)
      turn_block(a + i * a_stride + j, std::min(width, rows - i), std::min(width, columns - j), a_stride,
                 out + j * out_stride + i, out_stride);
}

template void transpose<float>(const float*, std::size_t, std::size_t, std::size_t, float*, std::size_t);
template void transpose<double>(const double*, std::size_t, std::size_t, std::size_t, double*, std::size_t);

}  // namespace fluxformer
