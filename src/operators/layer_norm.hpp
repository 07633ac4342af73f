#pragma once

// Normalisations of rows over their channels, and their derivatives: LayerNorm (Ba et al. 2016), RMSNorm (Zhang
// and Sennrich 2019), and the projection to the unit sphere.
//
// LayerNorm, where means are over the channels of a row:
//
//   y = gain z + bias      z = (x - mean(x)) / sigma,   sigma = sqrt(mean((x - mean(x))^2) + eps)
//
//   tangent    J v = gain (e - z mean(z e)),            e = (v - mean(v)) / sigma
//   adjoint    J^T w = (g - mean(g) - z mean(z g)) / sigma,   g = gain w
//              gain_bar = sum over rows of z w,   bias_bar = sum over rows of w
//
// RMSNorm is the same with 0 in place of mean(x), mean(v) and mean(g). Either may have no bias (null).
//
// Along a direction (x_dot, gain_dot, bias_dot, w_dot), for products with the Hessian, with e of v = x_dot:
//
//   y_dot = gain_dot z + gain z_dot + bias_dot          z_dot = e - z mean(z e)
//   and the adjoint varies by the product rule with     (1 / sigma)_dot = -mean(z e) / sigma
//
// Rows of the state are double, `x_stride` apart; rows of T are `y_stride` or `w_stride` apart. Arithmetic is
// in T.
//
// The sphere, y = x / |x|, where all rows are contiguous, in double:
//
//   J v = (v - y (y . v)) / |x|        symmetric, so that J^T w is the same

#include "base/index.hpp"

namespace fluxformer {

/// eps of PyTorch's LayerNorm, and of models that do not say theirs.
inline constexpr double layer_norm_eps = 1e-5;

/// The map of a norm: LayerNorm subtracts the mean, RMSNorm does not.
enum class NormMap { layer, rms };

/// The map and its eps, which may be 0: then it has no value (NaN) where a row has no length.
struct NormSettings {
  NormMap map = NormMap::layer;
  double eps = layer_norm_eps;
};

/// y = N(x).
template <class T>
void layer_norm(const double* x, Index x_stride, Index rows, Index width, const NormSettings& norm,
                const T* gain, const T* bias, T* y, Index y_stride);

/// y = J(x) v.
template <class T>
void layer_norm_tangent(const double* x, const double* v, Index x_stride, Index rows, Index width,
                        const NormSettings& norm, const T* gain, T* y, Index y_stride);

/// x_bar = base + scale * J(x)^T w, where `base`, strides as x, may be `x_bar`; gain_bar, bias_bar (if not
/// null) += scale * their gradients.
template <class T>
void layer_norm_adjoint(const double* x, Index x_stride, const T* w, Index w_stride, Index rows, Index width,
                        const NormSettings& norm, const T* gain, double scale, const double* base,
                        double* x_bar, double* gain_bar, double* bias_bar);

/// x_bar += scale * J(x)^T w; gain_bar and bias_bar (if not null) += scale * their gradients.
template <class T>
void layer_norm_adjoint(const double* x, Index x_stride, const T* w, Index w_stride, Index rows, Index width,
                        const NormSettings& norm, const T* gain, double scale, double* x_bar,
                        double* gain_bar, double* bias_bar) {
  layer_norm_adjoint(x, x_stride, w, w_stride, rows, width, norm, gain, scale, x_bar, x_bar, gain_bar,
                     bias_bar);
}

/// y_dot along x_dot, gain_dot and bias_dot.
template <class T>
void layer_norm_full_tangent(const double* x, const double* x_dot, Index x_stride, Index rows, Index width,
                             const NormSettings& norm, const T* gain, const T* gain_dot, const T* bias_dot,
                             T* y_dot, Index y_stride);

/// x_bar_dot = base + scale * (J^T w)_dot, where `base`, strides as x, may be `x_bar_dot`; gain_bar_dot and
/// bias_bar_dot (if not null) += scale * (sum over rows of z w)_dot and scale * (sum over rows of w_dot).
template <class T>
void layer_norm_adjoint_tangent(const double* x, const double* x_dot, Index x_stride, const T* w,
                                const T* w_dot, Index w_stride, Index rows, Index width,
                                const NormSettings& norm, const T* gain, const T* gain_dot, double scale,
                                const double* base, double* x_bar_dot, double* gain_bar_dot,
                                double* bias_bar_dot);

/// x := x / |x|. Returns false if a row is zero (that row stays zero).
bool project_to_sphere(double* x, Index rows, Index width);
/// v := J v at x, which is J^T v too.
void sphere_tangent(const double* x, double* v, Index rows, Index width);
/// v := v - y (y . v): the projection to the tangent space at x.
void project_to_tangent(const double* x, double* v, Index rows, Index width);
/// x_bar_dot := the tangent of x_bar = J^T w along x_dot and w_dot.
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            Index rows, Index width, double* x_bar_dot);

}  // namespace fluxformer
