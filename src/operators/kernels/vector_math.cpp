#include "operators/kernels/vector_math.hpp"

#include <cmath>
#include <iterator>
#include <numbers>

#include "operators/kernels/simd.hpp"

// glibc's vector erf has x86 vector-ABI names and came with 2.35. Elsewhere: std, lane by lane.
#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#if defined(__AVX512F__)
#define FLUXFORMER_VECTOR_DOUBLE(name) _ZGVeN8v_##name
#elif defined(__AVX2__)
#define FLUXFORMER_VECTOR_DOUBLE(name) _ZGVdN4v_##name
#else
#define FLUXFORMER_VECTOR_DOUBLE(name) _ZGVbN2v_##name
#endif

extern "C" {
fluxformer::simd::Vector<double> FLUXFORMER_VECTOR_DOUBLE(erf)(fluxformer::simd::Vector<double>);
}
#endif

namespace fluxformer {
namespace {

using simd::broadcast;
using simd::Vector;

#ifdef FLUXFORMER_VECTOR_DOUBLE
inline Vector<double> vector_erf(Vector<double> x) {
  return FLUXFORMER_VECTOR_DOUBLE(erf)(x);
}
#else
template <class V>
inline V vector_erf(V x) {
  for (Index i = 0; i < simd::lanes<double>; ++i) x[i] = std::erf(x[i]);
  return x;
}
#endif

/// Arguments beyond which the functions are constant to round-off. Arguments are clamped to them, so that
/// exponentials stay normal numbers.
template <class T>
struct Range;
template <>
struct Range<double> {
  static constexpr double erf_form = 37;   ///< x^2 / 2 < 708
  static constexpr double tanh_form = 21;  ///< 2 sqrt(2/pi) (x + 0.044715 x^3) < 708
};
template <>
struct Range<float> {
  static constexpr float erf_form = 13;
  static constexpr float tanh_form = 9.9F;
};

/// Derivatives of an activation.
template <class T>
struct Derivatives {
  Vector<T> slope, curvature;
};

/// g = x Phi(x), g' = Phi(x) + x phi(x), g'' = phi(x) (2 - x^2); Phi, phi the normal distribution and its
/// density.
template <class T>
struct GeluErf {
  template <int order>
  Vector<T> value(const Vector<T>& x, Derivatives<T>& g) const {
    const Vector<T> limit = broadcast(Range<T>::erf_form);
    const Vector<T> held = simd::clamp(x, -limit, limit);
    const Vector<T> cdf = T(0.5) + T(0.5) * vector_erf(held * (std::numbers::sqrt2_v<T> / 2));
    if constexpr (order > 0) {
      constexpr T density_at_zero = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
      const Vector<T> decay = simd::exponential<T>(T(-0.5) * held * held);
      g.slope = cdf + held * density_at_zero * decay;
      if constexpr (order > 1) g.curvature = density_at_zero * decay * (T(2) - held * held);
    }
    return x * cdf;
  }
};

/// GELU in single precision with one exponential for Phi and phi, which is faster than erf: with a = |x|,
///   Phi(-a) = exp(-a^2 / 2) R(a),   R(a) = erfcx(a / sqrt 2) / 2
/// where R is a polynomial in t = 1 / (1 + 0.21 a) without constant term, fitted to R on 0 <= a <= 13 for the
/// least relative error, 1.2e-8. Small numbers stay accurate relative to themselves: Phi(-a) is not a
/// difference.
template <>
struct GeluErf<float> {
  template <int order>
  Vector<float> value(const Vector<float>& x, Derivatives<float>& g) const {
    const Vector<float> limit = broadcast(Range<float>::erf_form);
    const Vector<float> held = simd::clamp(x, -limit, limit);
    const Vector<float> size = held < 0.0F ? -held : held;
    const Vector<float> decay = simd::exponential<float>(-0.5F * held * held);
    const Vector<float> t = 1.0F / (1.0F + 0.21F * size);
    constexpr float coefficients[] = {-0.0724177716F, 0.287350502F,  -0.338202132F,
                                      0.358770499F,   -0.10065533F,  0.127885783F,
                                      0.0683719517F,  0.0851928913F, 0.0837036021F};
    Vector<float> sum = broadcast(coefficients[0]);
    for (Index k = 1; k < std::ssize(coefficients); ++k) sum = sum * t + coefficients[k];
    const Vector<float> tail = decay * (sum * t);
    const Vector<float> cdf = held < 0.0F ? tail : 1.0F - tail;
    if constexpr (order > 0) {
      constexpr float density_at_zero = std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
      g.slope = cdf + held * density_at_zero * decay;
      if constexpr (order > 1) g.curvature = density_at_zero * decay * (2.0F - held * held);
    }
    return x * cdf;
  }
};

/// g = x (1 + tanh y) / 2 = x s(2y), y = sqrt(2/pi) (x + 0.044715 x^3), s(z) = 1 / (1 + exp(-z)): one
/// exponential, and no cancellation for x < 0. With h = s (1 - s), 1 - s = exp(-2y) s, and t = 2y:
///   g' = s + x h t'     g'' = h (2 t' + x ((1 - 2 s) t'^2 + t''))
template <class T>
struct GeluTanh {
  template <int order>
  Vector<T> value(const Vector<T>& x, Derivatives<T>& g) const {
    constexpr T two_root = 2 * std::numbers::sqrt2_v<T> * std::numbers::inv_sqrtpi_v<T>;
    constexpr T cubic = T(0.044715);
    const Vector<T> limit = broadcast(Range<T>::tanh_form);
    const Vector<T> held = simd::clamp(x, -limit, limit);
    const Vector<T> square = held * held;
    const Vector<T> decay = simd::exponential<T>(-two_root * held * (T(1) + cubic * square));
    const Vector<T> logistic = T(1) / (T(1) + decay);
    if constexpr (order > 0) {
      const Vector<T> rate = two_root * (T(1) + 3 * cubic * square);
      g.slope = logistic + held * logistic * (decay * logistic) * rate;
      if constexpr (order > 1) {
        const Vector<T> turn = (decay - T(1)) * logistic * rate * rate + 6 * two_root * cubic * held;
        g.curvature = logistic * (decay * logistic) * (T(2) * rate + held * turn);
      }
    }
    return x * logistic;
  }
};

/// g = x s, s = 1 / (1 + exp(-x)). With t = exp(-|x|), which does not overflow, one of s and 1 - s is 1 / (1 + t)
/// and the other t / (1 + t): both are accurate relative to themselves.
///   g' = s (1 + x (1 - s))     g'' = s (1 - s) (2 + x (1 - 2 s))
template <class T>
struct Silu {
  template <int order>
  Vector<T> value(const Vector<T>& x, Derivatives<T>& g) const {
    const Vector<T> decay = simd::exponential_or_zero<T>(x < T(0) ? x : -x);
    const Vector<T> large = T(1) / (T(1) + decay), small = decay * large;
    const Vector<T> logistic = x < T(0) ? small : large;
    if constexpr (order > 0) {
      const Vector<T> rest = x < T(0) ? large : small;  // 1 - s
      g.slope = logistic * (T(1) + x * rest);
      if constexpr (order > 1) g.curvature = logistic * rest * (T(2) + x * (rest - logistic));
    }
    return x * logistic;
  }
};

/// x := g(x + bias); for order 1 slope := g', for order 2 curvature := g'' too. `bias` may be null.
template <int order, class T, class Activation>
void activate(const Activation& g, T* x, T* slope, T* curvature, Index count, const T* bias) {
  constexpr Index width = simd::lanes<T>;
  Derivatives<T> along;
  Index i = 0;
  for (; i + width <= count; i += width) {
    const Vector<T> at = bias != nullptr ? simd::load(x + i) + simd::load(bias + i) : simd::load(x + i);
    simd::store(x + i, g.template value<order>(at, along));
    if constexpr (order > 0) simd::store(slope + i, along.slope);
    if constexpr (order > 1) simd::store(curvature + i, along.curvature);
  }
  if (i == count) return;
  Vector<T> at = simd::load_part(x + i, count - i);
  if (bias != nullptr) at += simd::load_part(bias + i, count - i);
  const Vector<T> value = g.template value<order>(at, along);
  simd::store_part<T>(x + i, value, count - i);
  if constexpr (order > 0) simd::store_part<T>(slope + i, along.slope, count - i);
  if constexpr (order > 1) simd::store_part<T>(curvature + i, along.curvature, count - i);
}

template <class T, class Activation>
void activate(const Activation& g, T* x, T* slope, Index count, const T* bias) {
  T* const none = nullptr;
  if (slope == nullptr)
    activate<0>(g, x, none, none, count, bias);
  else
    activate<1>(g, x, slope, none, count, bias);
}

}  // namespace

template <class T>
void exp_shifted(T* x, Index count, T shift) {
  constexpr Index width = simd::lanes<T>;
  const Vector<T> all = broadcast(shift);
  Index i = 0;
  for (; i + width <= count; i += width)
    simd::store(x + i, simd::exponential_or_zero<T>(simd::load(x + i) - all));
  if (i == count) return;
  const Vector<T> rest = simd::exponential_or_zero<T>(simd::load_part(x + i, count - i) - all);
  simd::store_part<T>(x + i, rest, count - i);
}

template <class T>
void gelu_erf(T* x, T* slope, Index count, const T* bias) {
  activate(GeluErf<T>{}, x, slope, count, bias);
}

template <class T>
void gelu_tanh(T* x, T* slope, Index count, const T* bias) {
  activate(GeluTanh<T>{}, x, slope, count, bias);
}

template <class T>
void gelu_erf_curvature(T* x, T* slope, T* curvature, Index count, const T* bias) {
  activate<2>(GeluErf<T>{}, x, slope, curvature, count, bias);
}

template <class T>
void gelu_tanh_curvature(T* x, T* slope, T* curvature, Index count, const T* bias) {
  activate<2>(GeluTanh<T>{}, x, slope, curvature, count, bias);
}

template <class T>
void silu(T* x, T* slope, Index count, const T* bias) {
  activate(Silu<T>{}, x, slope, count, bias);
}

template <class T>
void silu_curvature(T* x, T* slope, T* curvature, Index count, const T* bias) {
  activate<2>(Silu<T>{}, x, slope, curvature, count, bias);
}

template void exp_shifted(float*, Index, float);
template void exp_shifted(double*, Index, double);
template void gelu_erf(float*, float*, Index, const float*);
template void gelu_erf(double*, double*, Index, const double*);
template void gelu_tanh(float*, float*, Index, const float*);
template void gelu_tanh(double*, double*, Index, const double*);
template void gelu_erf_curvature(float*, float*, float*, Index, const float*);
template void gelu_erf_curvature(double*, double*, double*, Index, const double*);
template void gelu_tanh_curvature(float*, float*, float*, Index, const float*);
template void gelu_tanh_curvature(double*, double*, double*, Index, const double*);
template void silu(float*, float*, Index, const float*);
template void silu(double*, double*, Index, const double*);
template void silu_curvature(float*, float*, float*, Index, const float*);
template void silu_curvature(double*, double*, double*, Index, const double*);

}  // namespace fluxformer
