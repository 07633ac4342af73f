#pragma once

// LayerNorm over channels, row by row: y = (x - mean) / sqrt(var + eps) * gain + bias (Ba et al. 2016), and
// its tangent and adjoint; and the projection to the unit sphere x / |x| with its tangent and adjoint.

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

/// x := x / |x|, contiguous rows. Returns false if a row is zero (that row stays zero).
bool project_to_sphere(double* x, int rows, int width);
/// v := J v for y = x / |x| at x: (v - y (y . v)) / |x|. Symmetric, so it is the adjoint too.
void sphere_tangent(const double* x, double* v, int rows, int width);
/// v := v - y (y . v), y = x / |x|: the projection to the tangent space at x.
void project_to_tangent(const double* x, double* v, int rows, int width);

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
