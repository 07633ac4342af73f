#pragma once

// Elementwise functions on arrays through glibc's vector library (libmvec), about 2 units in the last place.
// An element's result does not depend on its place in the array (tails go through the same vector code).

#include <cstddef>

namespace fluxformer {

/// x := exp(x - shift)
template <class T>
void exp_shifted(T* x, std::size_t count, T shift);
/// x := g(x) and, if `slope` is not null, slope := g'(x); erf and tanh forms of GELU.
template <class T>
void gelu_erf(T* x, T* slope, std::size_t count);
template <class T>
void gelu_tanh(T* x, T* slope, std::size_t count);

extern template void exp_shifted<float>(float*, std::size_t, float);
extern template void exp_shifted<double>(double*, std::size_t, double);
extern template void gelu_erf<float>(float*, float*, std::size_t);
extern template void gelu_erf<double>(double*, double*, std::size_t);
extern template void gelu_tanh<float>(float*, float*, std::size_t);
extern template void gelu_tanh<double>(double*, double*, std::size_t);

}  // namespace fluxformer
