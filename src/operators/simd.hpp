#pragma once

// Vectors of the machine's width by the compiler's own extension: what the elementwise kernels and row sums
// are written in. Loads need no alignment, and no loop here peels for it: a result never depends on an
// address.

#include <cstddef>
#include <cstring>

namespace fluxformer::simd {

#if defined(__AVX512F__)
inline constexpr std::size_t bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t bytes = 32;
#else
inline constexpr std::size_t bytes = 16;
#endif

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(bytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr std::size_t lanes = bytes / sizeof(T);

template <class T>
inline Vector<T> load(const T* x) {
  Vector<T> v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
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
template <class T>
inline void store_part(T* x, const Vector<T>& v, std::size_t count) {
  std::memcpy(x, &v, count * sizeof(T));
}
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

/// The sum of the lanes, halves first: log2(lanes) roundings.
template <class T>
inline T sum(const Vector<T>& v) {
  T part[lanes<T>];
  std::memcpy(part, &v, sizeof v);
  for (std::size_t half = lanes<T> / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) part[i] += part[i + half];
  }
  return part[0];
}

/// sum over i < count of term(part of the arrays at i), where term(load) is built of load(pointer).
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
