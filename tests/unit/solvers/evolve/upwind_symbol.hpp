#pragma once

// Fourier symbols of the depth transport schemes.

#include <complex>

namespace fluxformer::test {

using Complex = std::complex<double>;

/// The symbol of h d/ds of order 1 or 2, for the wave exp(i theta k).
inline Complex upwind_symbol(int order, double theta) {
  const Complex shift = std::polar(1.0, -theta);
  return order == 1 ? 1.0 - shift : (3.0 - 4.0 * shift + shift * shift) / 2.0;
}

}  // namespace fluxformer::test
