#pragma once

// LayerNorm along a direction of state and parameters, for Hessian products. With z = (x - mean) / sigma,
// sigma = sqrt(var + eps), y = gain z + bias:
//
//   y_dot = gain_dot z + gain z_dot + bias_dot        z_dot = e - z mean(z e),  e = (x_dot - mean(x_dot)) / sigma
//   the adjoint   x_bar = (g - mean(g) - z mean(z g)) / sigma,  g = gain w,   varies by the product rule with
//   (1 / sigma)_dot = -mean(z e) / sigma

#include <cstddef>

namespace fluxformer {

/// y_dot. `x`, `x_dot`: rows of `width` doubles, `x_stride` apart; `y_dot`: rows of T, `y_stride` apart.
template <class T>
void layer_norm_full_tangent(const double* x, const double* x_dot, std::size_t x_stride, int rows, int width,
                             double eps, const T* gain, const T* gain_dot, const T* bias_dot, T* y_dot,
                             std::size_t y_stride);

/// x_bar_dot = base + scale * (J^T w)_dot, where `base`, strides as x, may be `x_bar_dot`;
/// gain_bar_dot += scale * (sum over rows of z w)_dot, bias_bar_dot += scale * sum over rows of w_dot, if not null.
template <class T>
void layer_norm_adjoint_tangent(const double* x, const double* x_dot, std::size_t x_stride, const T* w,
                                const T* w_dot, std::size_t w_stride, int rows, int width, double eps,
                                const T* gain, const T* gain_dot, double scale, const double* base,
                                double* x_bar_dot, double* gain_bar_dot, double* bias_bar_dot);

/// The same for y = x / |x|, whose adjoint is x_bar = (w - y (y . w)) / |x|: x_bar_dot, contiguous rows.
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            int rows, int width, double* x_bar_dot);

}  // namespace fluxformer
