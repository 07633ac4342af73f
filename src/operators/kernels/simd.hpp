#pragma once

// Vectors of the machine's width, by the compiler's vector extension, and passes over arrays by whole
// registers: sums, and the steps between the arithmetic of kernels (T) and that of states (double). Loads are
// unaligned and no loop peels for alignment: results do not depend on addresses.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "base/index.hpp"

namespace fluxformer::simd {

#if defined(__AVX512F__)
inline constexpr Index bytes = 64;
#elif defined(__AVX2__)
inline constexpr Index bytes = 32;
#else
inline constexpr Index bytes = 16;
#endif

/// The type of a register of numbers T.
template <class T>
struct VectorOf {
  /// The compiler's vector extension.
  typedef T type __attribute__((vector_size(bytes)));
};
/// A register of numbers T. Arithmetic and comparisons are elementwise.
template <class T>
using Vector = typename VectorOf<T>::type;
/// Numbers of type T in a register.
template <class T>
inline constexpr Index lanes = bytes / sizeof(T);

/// Reads `lanes` numbers from memory of any alignment.
template <class T>
inline Vector<T> load(const T* x) {
  Vector<T> v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
/// Writes `lanes` numbers to memory of any alignment.
template <class T>
inline void store(T* x, const Vector<T>& v) {
  std::memcpy(x, &v, sizeof v);
}
/// Reads the first `count` < lanes numbers; the other lanes are zero.
template <class T>
inline Vector<T> load_part(const T* x, Index count) {
#if defined(__AVX512F__)  // a copy of a length that is not known to the compiler is a call
  const auto first = static_cast<std::uint16_t>((1U << count) - 1U);
  if constexpr (sizeof(T) == 4)
    return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_ps(first, x));
  else
    return reinterpret_cast<Vector<T>>(_mm512_maskz_loadu_pd(static_cast<std::uint8_t>(first), x));
#else
  Vector<T> v{};
  std::memcpy(&v, x, count * sizeof(T));
  return v;
#endif
}
/// Writes the first `count` < lanes numbers.
template <class T>
inline void store_part(T* x, const Vector<T>& v, Index count) {
#if defined(__AVX512F__)
  const auto first = static_cast<std::uint16_t>((1U << count) - 1U);
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(x, first, reinterpret_cast<__m512>(v));
  else
    _mm512_mask_storeu_pd(x, static_cast<std::uint8_t>(first), reinterpret_cast<__m512d>(v));
#else
  std::memcpy(x, &v, count * sizeof(T));
#endif
}

/// A register with `value` in every lane.
template <class T>
inline Vector<T> broadcast(T value) {
  return Vector<T>{} + value;
}
/// x, but at least `low` and at most `high`. NaN stays NaN.
template <class V>
inline V clamp(const V& x, const V& low, const V& high) {
  const V raised = x < low ? low : x;
  return raised > high ? high : raised;
}

/// The first `count` lanes of v, with zeros after them.
template <class T, std::size_t... lane>
inline Vector<T> first_lanes(const Vector<T>& v, Index count, std::index_sequence<lane...> /*all*/) {
  using Lane = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  return Vector<Lane>{static_cast<Lane>(lane)...} < static_cast<Lane>(count) ? v : Vector<T>{};
}
/// The first `count` lanes of v, with zeros after them.
template <class T>
inline Vector<T> first_lanes(const Vector<T>& v, Index count) {
  return first_lanes<T>(v, count, std::make_index_sequence<lanes<T>>{});
}

/// Adds to each lane the lane at distance `half`, then half / 2, ..., 1: every lane becomes the sum.
template <class T, std::size_t half, std::size_t... lane>
inline Vector<T> fold(const Vector<T>& v, std::index_sequence<lane...> all) {
  if constexpr (half == 0) {
    return v;
  } else {
    const Vector<T> other = __builtin_shufflevector(v, v, static_cast<int>(lane ^ half)...);
    return fold<T, half / 2>(v + other, all);
  }
}

/// The sum of the lanes, taken pairwise: log2(lanes) roundings.
template <class T>
inline T sum(const Vector<T>& v) {
  return fold<T, lanes<T> / 2>(v, std::make_index_sequence<lanes<T>>{})[0];
}

/// Reads as many doubles as a register of T has lanes, and rounds them to T.
template <class T>
inline Vector<T> load_rounded(const double* x) {
  if constexpr (sizeof(T) == 8) {
    return load(x);
  } else {
    typedef float Half __attribute__((vector_size(bytes / 2)));
    const Half halves[2] = {__builtin_convertvector(load(x), Half),
                            __builtin_convertvector(load(x + lanes<double>), Half)};
    Vector<T> v;
    std::memcpy(&v, halves, sizeof v);
    return v;
  }
}
/// out = base + scale * v for the lanes of a register.
template <class T>
inline void store_sum(double scale, const Vector<T>& v, const double* base, double* out) {
  if constexpr (sizeof(T) == 8) {
    store(out, load(base) + scale * v);
  } else {
    typedef float Half __attribute__((vector_size(bytes / 2)));
    Half halves[2];
    std::memcpy(halves, &v, sizeof v);
    store(out, load(base) + scale * __builtin_convertvector(halves[0], Vector<double>));
    store(out + lanes<double>,
          load(base + lanes<double>) + scale * __builtin_convertvector(halves[1], Vector<double>));
  }
}
/// out = base + scale * x, where `base` may be `out` (but not overlap it otherwise).
template <class T>
inline void set_sum(double scale, const T* x, Index count, const double* base, double* out) {
#if !defined(__clang__)  // which has no such pragma
#pragma GCC ivdep
#endif
  for (Index i = 0; i < count; ++i) out[i] = base[i] + scale * x[i];
}

/// out = base + scale * (x + bias), where `base` may be `out` (but not overlap it otherwise). x + bias is in
/// T.
template <class T>
inline void set_sum(double scale, const T* x, const T* bias, Index count, const double* base, double* out) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (Index i = 0; i < count; ++i) out[i] = base[i] + scale * (x[i] + bias[i]);
}

/// sums += the sum of the rows of x, which are contiguous.
template <class T>
inline void add_rows(const T* x, Index rows, Index width, T* __restrict sums) {
  for (Index r = 0; r < rows; ++r, x += width)
    for (Index j = 0; j < width; ++j) sums[j] += x[j];
}

/// The sum over i < count of an expression in array elements: term(at) uses at(pointer) for pointer[i].
/// Registers are added to two sums in turn, which halves the chain of dependent additions.
template <class T, class Term>
inline T sum_over(Index count, Term&& term) {
  constexpr Index width = lanes<T>;
  Vector<T> even{}, odd{};
  Index i = 0;
  for (; i + 2 * width <= count; i += 2 * width) {
    even += term([i](const T* x) { return load(x + i); });
    odd += term([i](const T* x) { return load(x + i + width); });
  }
  for (; i + width <= count; i += width) even += term([i](const T* x) { return load(x + i); });
  if (i < count) odd += term([i, count](const T* x) { return load_part(x + i, count - i); });
  return sum<T>(even + odd);
}

}  // namespace fluxformer::simd
