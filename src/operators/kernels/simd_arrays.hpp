#pragma once

// Passes over arrays by whole registers: sums, and the steps between the arithmetic of kernels and states, which are double. Results do
// not depend on addresses.

#include "operators/kernels/simd.hpp"

namespace fluxformer::simd {

/// As many doubles as a register of T has lanes, rounded to T.
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
inline void set_sum(double scale, const T* x, std::size_t count, const double* base, double* out) {
#if !defined(__clang__)  // which has no such pragma, and reads this for its diagnostics only
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i) out[i] = base[i] + scale * static_cast<double>(x[i]);
}

/// out = base + scale * (x + bias), likewise.
template <class T>
inline void set_sum(double scale, const T* x, const T* bias, std::size_t count, const double* base,
                    double* out) {
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
