#include "operators/kernels/transpose.hpp"

#include <algorithm>

#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

using simd::lanes;
using simd::Vector;

/// Exchanges the lanes of a whose number has the bit `half` with the lanes of b whose number has not: one
/// level of the transpose of a square block, in which a and b are rows `half` apart.
template <class T, std::size_t half, std::size_t... lane>
void exchange(Vector<T>& a, Vector<T>& b, std::index_sequence<lane...> /*all*/) {
  constexpr std::size_t other = lanes<T>;  // lanes of the second argument of a shuffle
  const Vector<T> low =
      __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane : lane + half)...);
  a = low;
}

/// Transposes a square block: blocks of size `half` beside the diagonal change places, then those of half the
/// size within each.
template <class T, std::size_t half>
void exchange_all(Vector<T> (&block)[lanes<T>]) {
#pragma GCC unroll 16
  for (Index i = 0; i < lanes<T>; ++i)
    if ((i & half) == 0) exchange<T, half>(block[i], block[i + half], std::make_index_sequence<lanes<T>>{});
  if constexpr (half > 1) exchange_all<T, half / 2>(block);
}

/// out := the transpose of a block of at most `lanes` rows and columns.
template <class T>
void transpose_block(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride) {
  constexpr Index width = lanes<T>;
  Vector<T> block[width];
  if (rows == width && columns == width) {
#pragma GCC unroll 16
    for (Index i = 0; i < width; ++i) block[i] = simd::load(a + i * a_stride);
    exchange_all<T, width / 2>(block);
#pragma GCC unroll 16
    for (Index j = 0; j < width; ++j) simd::store(out + j * out_stride, block[j]);
    return;
  }
  for (Index i = 0; i < width; ++i)
    block[i] = i < rows ? simd::load_part(a + i * a_stride, columns) : Vector<T>{};
  exchange_all<T, width / 2>(block);
  for (Index j = 0; j < columns; ++j) simd::store_part<T>(out + j * out_stride, block[j], rows);
}

}  // namespace

template <class T>
void transpose(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride) {
  constexpr Index width = lanes<T>;
  for (Index i = 0; i < rows; i += width)
    for (Index j = 0; j < columns; j += width)
      transpose_block(a + i * a_stride + j, std::min(width, rows - i), std::min(width, columns - j), a_stride,
                      out + j * out_stride + i, out_stride);
}

template void transpose(const float*, Index, Index, Index, float*, Index);
template void transpose(const double*, Index, Index, Index, double*, Index);

}  // namespace fluxformer
