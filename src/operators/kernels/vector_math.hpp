#pragma once

// Elementwise functions on arrays by glibc's vector library (libmvec), accurate to about 2 units in the last
// place. A result does not depend on the position in the array: tails use the same vector code.

#include <cstddef>

namespace fluxformer {

/// x := exp(x - shift)
template <class T>
void exp_shifted(T* x, std::size_t count, T shift);
/// x := g(x) and, if `slope` is not null, slope := g'(x); erf and tanh forms of GELU.
template <class T>
void gelu_erf(T* x, T* slope, std::size_t count);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and, if asked for, its slope.
template <class T>
void gelu_tanh(T* x, T* slope, std::size_t count);
/// The same bits and curvature := g''(x), none of the three null.
template <class T>
void gelu_erf_curvature(T* x, T* slope, T* curvature, std::size_t count);
/// The same for the tanh form.
template <class T>
void gelu_tanh_curvature(T* x, T* slope, T* curvature, std::size_t count);

extern template void exp_shifted<float>(float*, std::size_t, float);
extern template void exp_shifted<double>(double*, std::size_t, double);
extern template void gelu_erf<float>(float*, float*, std::size_t);
extern template void gelu_erf<double>(double*, double*, std::size_t);
extern template void gelu_tanh<float>(float*, float*, std::size_t);
extern template void gelu_erf_curvature<float>(float*, float*, float*, std::size_t);
extern template void gelu_tanh_curvature<float>(float*, float*, float*, std::size_t);
extern template void gelu_tanh<double>(double*, double*, std::size_t);
extern template void gelu_erf_curvature<double>(double*, double*, double*, std::size_t);
extern template void gelu_tanh_curvature<double>(double*, double*, double*, std::size_t);

}  // namespace fluxformer
