#pragma once

// LayerNorm over channels, row by row: y = (x - mean) / sqrt(var + eps) * gain + bias (Ba et al. 2016), and
// its tangent and adjoint; and the projection to the unit sphere x / |x| with its tangent and adjoint.
//
// LayerNorm along a direction of state and parameters, for Hessian products. With z = (x - mean) / sigma,
// sigma = sqrt(var + eps), y = gain z + bias:
//
//   y_dot = gain_dot z + gain z_dot + bias_dot        z_dot = e - z mean(z e),  e = (x_dot - mean(x_dot)) / sigma
//   the adjoint   x_bar = (g - mean(g) - z mean(z g)) / sigma,  g = gain w,   varies by the product rule with
//   (1 / sigma)_dot = -mean(z e) / sigma

#include <cstddef>

namespace fluxformer {

/// eps of PyTorch's LayerNorm, and of models that do not say theirs.
inline constexpr double layer_norm_eps = 1e-5;

/// `x`: rows of `width` doubles, `x_stride` apart; `y`: rows of T, `y_stride` apart. Arithmetic in T.
template <class T>
void layer_norm(const double* x, std::size_t x_stride, int rows, int width, double eps, const T* gain,
                const T* bias, T* y, std::size_t y_stride);
/// y = J(x) v.
template <class T>
void layer_norm_tangent(const double* x, const double* v, std::size_t x_stride, int rows, int width,
                        double eps, const T* gain, T* y, std::size_t y_stride);
/// x_bar = base + scale * J(x)^T w, where `base`, strides as x, may be `x_bar`; gain_bar, bias_bar (if not
/// null) += scale * their gradients.
template <class T>
void layer_norm_adjoint(const double* x, std::size_t x_stride, const T* w, std::size_t w_stride, int rows,
                        int width, double eps, const T* gain, double scale, const double* base, double* x_bar,
                        double* gain_bar, double* bias_bar);

/// The same with x_bar += scale * J(x)^T w.
template <class T>
void layer_norm_adjoint(const double* x, std::size_t x_stride, const T* w, std::size_t w_stride, int rows,
                        int width, double eps, const T* gain, double scale, double* x_bar, double* gain_bar,
                        double* bias_bar) {
  layer_norm_adjoint(x, x_stride, w, w_stride, rows, width, eps, gain, scale, x_bar, x_bar, gain_bar,
                     bias_bar);
}

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

extern template void layer_norm<float>(const double*, std::size_t, int, int, double, const float*,
                                       const float*, float*, std::size_t);
extern template void layer_norm<double>(const double*, std::size_t, int, int, double, const double*,
                                        const double*, double*, std::size_t);
extern template void layer_norm_tangent<float>(const double*, const double*, std::size_t, int, int, double,
                                               const float*, float*, std::size_t);
extern template void layer_norm_tangent<double>(const double*, const double*, std::size_t, int, int, double,
                                                const double*, double*, std::size_t);
extern template void layer_norm_adjoint<float>(const double*, std::size_t, const float*, std::size_t, int,
                                               int, double, const float*, double, const double*, double*,
                                               double*, double*);
extern template void layer_norm_adjoint<double>(const double*, std::size_t, const double*, std::size_t, int,
                                                int, double, const double*, double, const double*, double*,
                                                double*, double*);

}  // namespace fluxformer
