#pragma once

// Elementwise functions on arrays, accurate to about 2 units in the last place; erf is that of glibc's vector library (libmvec). A
// result does not depend on the position in the array: tails use the same vector code.

#include <cstddef>

namespace fluxformer {

/// x := exp(x - shift)
template <class T>
void exp_shifted(T* x, std::size_t count, T shift);
/// x := g(x + bias) and, if `slope` is not null, slope := g'(x + bias); erf and tanh forms of GELU. `bias` has as many numbers as x, or
/// is null.
template <class T>
void gelu_erf(T* x, T* slope, std::size_t count, const T* bias = nullptr);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and, if asked for, its slope.
template <class T>
void gelu_tanh(T* x, T* slope, std::size_t count, const T* bias = nullptr);
/// The same bits and curvature := g''(x + bias), neither of the first three null.
template <class T>
void gelu_erf_curvature(T* x, T* slope, T* curvature, std::size_t count, const T* bias = nullptr);
/// The same for the tanh form.
template <class T>
void gelu_tanh_curvature(T* x, T* slope, T* curvature, std::size_t count, const T* bias = nullptr);

}  // namespace fluxformer
