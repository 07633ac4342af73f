#pragma once

// Vectors of the machine's width, by the compiler's vector extension, for elementwise kernels and row sums.
// Loads are unaligned and no loop peels for alignment: results do not depend on addresses.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace fluxformer::simd {

#if defined(__AVX512F__)
inline constexpr std::size_t bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t bytes = 32;
#else
inline constexpr std::size_t bytes = 16;
#endif

/// As many numbers of type T as a register holds.
template <class T>
struct VectorOf {
  /// By the compiler's vector extension.
  typedef T type __attribute__((vector_size(bytes)));
};
/// Arithmetic and comparisons are elementwise.
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr std::size_t lanes = bytes / sizeof(T);

/// `lanes` numbers from memory of any alignment.
template <class T>
inline Vector<T> load(const T* x) {
  Vector<T> v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
/// The inverse of `load`.
template <class T>
inline void store(T* x, const Vector<T>& v) {
  std::memcpy(x, &v, sizeof v);
}
/// The first `count` < lanes numbers, zeros after them.
template <class T>
inline Vector<T> load_part(const T* x, std::size_t count) {
  Vector<T> v{};
  std::memcpy(&v, x, count * sizeof(T));
  return v;
}
/// Writes the first `count` < lanes numbers.
template <class T>
inline void store_part(T* x, const Vector<T>& v, std::size_t count) {
  std::memcpy(x, &v, count * sizeof(T));
}
/// `value` in every lane.
template <class T>
inline Vector<T> broadcast(T value) {
  return Vector<T>{} + value;
}
/// NaN stays NaN.
template <class V>
inline V clamp(const V& x, const V& low, const V& high) {
  const V raised = x < low ? low : x;
  return raised > high ? high : raised;
}

/// v in the first `count` lanes, zeros after them.
template <class T, std::size_t... lane>
inline Vector<T> first_lanes(const Vector<T>& v, std::size_t count, std::index_sequence<lane...> /*all*/) {
  using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  return Vector<Index>{static_cast<Index>(lane)...} < static_cast<Index>(count) ? v : Vector<T>{};
}
template <class T>
inline Vector<T> first_lanes(const Vector<T>& v, std::size_t count) {
  return first_lanes<T>(v, count, std::make_index_sequence<lanes<T>>{});
}

/// Adds to each lane the one at distance `half`, then half / 2, ..., 1: every lane becomes the sum.
template <class T, std::size_t half, std::size_t... lane>
inline Vector<T> fold(const Vector<T>& v, std::index_sequence<lane...> all) {
  if constexpr (half == 0) {
    return v;
  } else {
    using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
    const Vector<T> other = __builtin_shuffle(v, Vector<Index>{static_cast<Index>(lane ^ half)...});
    return fold<T, half / 2>(v + other, all);
  }
}

/// The sum of the lanes, pairwise: log2(lanes) roundings.
template <class T>
inline T sum(const Vector<T>& v) {
  return fold<T, lanes<T> / 2>(v, std::make_index_sequence<lanes<T>>{})[0];
}

/// out = base + scale * x, where `base` may be `out` (but not overlap it otherwise).
template <class T>
inline void set_sum(double scale, const T* x, std::size_t count, const double* base, double* out) {
#if !defined(__clang__)  // which has no such pragma, and reads this for its diagnostics only
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) out[i] = base[i] + scale * static_cast<double>(x[i]);
}

/// out = base + scale * (x + bias), likewise.
template <class T>
inline void set_sum(double scale, const T* x, const T* bias, std::size_t count, const double* base, double* out) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) out[i] = base[i] + scale * static_cast<double>(x[i] + bias[i]);
}

/// sums += the rows of x, contiguous.
template <class T>
inline void add_rows(const T* x, std::size_t rows, std::size_t width, T* __restrict sums) {
  for (std::size_t r = 0; r < rows; ++r, x += width)
    for (std::size_t j = 0; j < width; ++j) sums[j] += x[j];
}

/// Sum over i < count of an expression in array elements: term(at) uses at(pointer) for pointer[i].
template <class T, class Term>
inline T sum_over(std::size_t count, Term&& term) {
  constexpr std::size_t width = lanes<T>;
  Vector<T> even{}, odd{};
  std::size_t i = 0;
  for (; i + 2 * width <= count; i += 2 * width) {
    even += term([i](const T* x) { return load(x + i); });
    odd += term([i](const T* x) { return load(x + i + width); });
  }
  for (; i + width <= count; i += width) even += term([i](const T* x) { return load(x + i); });
  if (i < count) odd += term([i, count](const T* x) { return load_part(x + i, count - i); });
  return sum<T>(even + odd);
}

}  // namespace fluxformer::simd
