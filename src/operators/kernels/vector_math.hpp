#pragma once

// Elementwise functions, accurate to about 2 units in the last place: exp of a register, inline, and exp, GELU
// and SiLU of arrays. erf is that of glibc's vector library (libmvec). A result does not depend on the position
// in the array: tails use the same vector code.
//
//   exp(x) = 2^n exp(r),   n = the whole number next to x / ln 2,   r = x - n ln 2,   |r| <= ln(2) / 2
//
// exp(r) is its Taylor polynomial, whose remainder is below half a unit in the last place.

#include <cstdint>
#include <iterator>

#include "base/index.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {

/// x := exp(x - shift)
template <class T>
void exp_shifted(T* x, Index count, T shift);
/// x := g(x + bias) and, if `slope` is not null, slope := g'(x + bias), with g(x) = x Phi(x), the erf form of
/// GELU. `bias` has as many numbers as x, or is null.
template <class T>
void gelu_erf(T* x, T* slope, Index count, const T* bias = nullptr);
/// The tanh form of GELU, g(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), with its slope as in
/// gelu_erf.
template <class T>
void gelu_tanh(T* x, T* slope, Index count, const T* bias = nullptr);
/// Value and slope of gelu_erf, with the same bits, and curvature := g''(x + bias). Of the pointers only
/// `bias` may be null.
template <class T>
void gelu_erf_curvature(T* x, T* slope, T* curvature, Index count, const T* bias = nullptr);
/// Value, slope and curvature of the tanh form; arguments as in gelu_erf_curvature.
template <class T>
void gelu_tanh_curvature(T* x, T* slope, T* curvature, Index count, const T* bias = nullptr);
/// SiLU, g(x) = x / (1 + e^-x), with its slope as in gelu_erf; 0 where e^x is less than the least normal
/// number.
template <class T>
void silu(T* x, T* slope, Index count, const T* bias = nullptr);
/// Value, slope and curvature of SiLU; arguments as in gelu_erf_curvature.
template <class T>
void silu_curvature(T* x, T* slope, T* curvature, Index count, const T* bias = nullptr);

}  // namespace fluxformer

namespace fluxformer::simd {

/// Constants of the argument's reduction, and the arguments for which the result is a normal number.
template <class T>
struct ExponentialOf;
/// Constants of exp in double.
template <>
struct ExponentialOf<double> {
  using Bits = std::int64_t;  ///< whole numbers of the same size, signed
  static constexpr double low = -708, high = 709;
  /// Adding it rounds to a whole number, which is then in the lowest bits.
  static constexpr double shift = 0x1.8p52;
  static constexpr double ln2_high = 0x1.62e42fefap-1, ln2_low = 0x1.cf79abc9e3b39p-40;
  static constexpr int mantissa = 52;
  static constexpr double coefficients[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                            1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                            1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
};
/// Constants of exp in float.
template <>
struct ExponentialOf<float> {
  using Bits = std::int32_t;  ///< whole numbers of the same size, signed
  static constexpr float low = -87, high = 88;
  static constexpr float shift = 0x1.8p23F;
  static constexpr float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  static constexpr int mantissa = 23;
  static constexpr float coefficients[] = {1.0F / 5040, 1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F};
};

/// exp(x) for low <= x <= high; any other x gives a number without meaning. NaN stays NaN.
template <class T>
inline Vector<T> exponential(const Vector<T>& x) {
  using Of = ExponentialOf<T>;
  using Bits = Vector<typename Of::Bits>;
  const Vector<T> shifted = x * (T(1) / (Of::ln2_high + Of::ln2_low)) + Of::shift;
  const Vector<T> n = shifted - Of::shift;
  const Vector<T> r = (x - n * Of::ln2_high) - n * Of::ln2_low;
  Vector<T> sum = broadcast(Of::coefficients[0]);
  for (Index k = 1; k < std::ssize(Of::coefficients); ++k) sum = sum * r + Of::coefficients[k];
  const Vector<T> power = r * r * sum + r + T(1);  // exp(r)
  // times 2^n: n is added to the exponent.
  Bits scaled, exponent;
  std::memcpy(&scaled, &power, sizeof scaled);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  scaled += exponent << Of::mantissa;
  Vector<T> result;
  std::memcpy(&result, &scaled, sizeof result);
  return result;
}

/// exp(x) for x <= high; 0 below `low`, where exp(x) is less than the least normal number. NaN stays NaN.
template <class T>
inline Vector<T> exponential_or_zero(const Vector<T>& x) {
  const Vector<T> low = broadcast(ExponentialOf<T>::low);
  return x < low ? Vector<T>{} : exponential<T>(x < low ? low : x);
}

}  // namespace fluxformer::simd
