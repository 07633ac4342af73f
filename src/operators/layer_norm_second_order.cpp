#include "operators/layer_norm_second_order.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {
namespace {

template <class T>
T mean_of(const T* x, std::size_t n) {
  return simd::sum_over<T>(n, [x](auto at) { return at(x); }) / static_cast<T>(n);
}

template <class T>
T mean_product(const T* x, const T* y, std::size_t n) {
  return simd::sum_over<T>(n, [x, y](auto at) { return at(x) * at(y); }) / static_cast<T>(n);
}

/// y := x - mean(x), in T.
template <class T>
void centre_row(const double* __restrict x, std::size_t n, T* __restrict y) {
  for (std::size_t j = 0; j < n; ++j) y[j] = static_cast<T>(x[j]);
  const T mean = mean_of(y, n);
  for (std::size_t j = 0; j < n; ++j) y[j] -= mean;
}

/// A row and its direction: z, z_dot, 1 / sigma, and mean(z e).
template <class T>
struct NormalisedRow {
  NormalisedRow(std::size_t width, double epsilon) : z(width), z_dot(width), eps(static_cast<T>(epsilon)) {}

  void set(const double* x, const double* x_dot) {
    const std::size_t n = z.size();
    centre_row(x, n, z.data());
    centre_row(x_dot, n, z_dot.data());
    inverse = T(1) / std::sqrt(mean_product(z.data(), z.data(), n) + eps);
    for (std::size_t j = 0; j < n; ++j) z[j] *= inverse;
    for (std::size_t j = 0; j < n; ++j) z_dot[j] *= inverse;
    along = mean_product(z.data(), z_dot.data(), n);
    for (std::size_t j = 0; j < n; ++j) z_dot[j] -= z[j] * along;
  }

  std::vector<T> z, z_dot;
  T eps, inverse = 0, along = 0;
};

}  // namespace

template <class T>
void layer_norm_full_tangent(const double* x, const double* x_dot, std::size_t x_stride, int rows, int width,
                             double eps, const T* gain, const T* gain_dot, const T* bias_dot, T* y_dot,
                             std::size_t y_stride) {
  const auto n = static_cast<std::size_t>(width);
  NormalisedRow<T> row(n, eps);
  for (Index r = 0; r < rows; ++r) {
    row.set(x + r * x_stride, x_dot + r * x_stride);
    const T* __restrict z = row.z.data();
    const T* __restrict z_dot = row.z_dot.data();
    T* __restrict to = y_dot + r * y_stride;
    for (std::size_t j = 0; j < n; ++j) to[j] = gain_dot[j] * z[j] + gain[j] * z_dot[j] + bias_dot[j];
  }
}

template <class T>
void layer_norm_adjoint_tangent(const double* x, const double* x_dot, std::size_t x_stride, const T* w,
                                const T* w_dot, std::size_t w_stride, int rows, int width, double eps,
                                const T* gain, const T* gain_dot, double scale, const double* base,
                                double* x_bar_dot, double* gain_bar_dot, double* bias_bar_dot) {
  const auto n = static_cast<std::size_t>(width);
  NormalisedRow<T> row(n, eps);
  std::vector<T> sums(4 * n, T(0));
  T* __restrict g = sums.data();
  T* __restrict g_dot = g + n;
  T* __restrict gain_sum = g_dot + n;
  T* __restrict bias_sum = gain_sum + n;
  for (Index r = 0; r < rows; ++r) {
    row.set(x + r * x_stride, x_dot + r * x_stride);
    const T* __restrict z = row.z.data();
    const T* __restrict z_dot = row.z_dot.data();
    const T* __restrict from = w + r * w_stride;
    const T* __restrict from_dot = w_dot + r * w_stride;
    for (std::size_t j = 0; j < n; ++j) {
      gain_sum[j] += from_dot[j] * z[j] + from[j] * z_dot[j];
      bias_sum[j] += from_dot[j];
      g[j] = gain[j] * from[j];
      g_dot[j] = gain[j] * from_dot[j] + gain_dot[j] * from[j];
    }
    const T mean = mean_of(g, n), mean_dot = mean_of(g_dot, n), along = mean_product(z, g, n);
    const T along_dot = mean_product(z_dot, g, n) + mean_product(z, g_dot, n);
    // x_bar / sigma varies through g and z, and through 1 / sigma.
    for (std::size_t j = 0; j < n; ++j)
      g_dot[j] = row.inverse * (g_dot[j] - mean_dot - z_dot[j] * along - z[j] * along_dot -
                                row.along * (g[j] - mean - z[j] * along));
    simd::set_sum(scale, g_dot, n, base + r * x_stride, x_bar_dot + r * x_stride);
  }
  if (gain_bar_dot != nullptr) simd::set_sum(scale, gain_sum, n, gain_bar_dot, gain_bar_dot);
  if (bias_bar_dot != nullptr) simd::set_sum(scale, bias_sum, n, bias_bar_dot, bias_bar_dot);
}

// With r = |x| and y_dot = (x_dot - y (y . x_dot)) / r:
//   x_bar_dot = (w_dot - y (y . w_dot) - y_dot (y . w) - y (y_dot . w) - (y . x_dot) x_bar) / r
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            int rows, int width, double* x_bar_dot) {
  const auto n = static_cast<std::size_t>(width);
  const auto dot = [n](const double* a, const double* b) {
    return mean_product(a, b, n) * static_cast<double>(n);
  };
  for (int row = 0; row < rows; ++row, x += n, x_dot += n, w += n, w_dot += n, x_bar_dot += n) {
    const double length = std::sqrt(dot(x, x));
    const double along_w = dot(x, w) / length, along_w_dot = dot(x, w_dot) / length;
    const double stretch = dot(x, x_dot) / length;
    const double turn = dot(x_dot, w) / length - stretch * along_w / length;  // y_dot . w
    for (std::size_t j = 0; j < n; ++j) {
      const double y = x[j] / length, y_dot = (x_dot[j] - y * stretch) / length;
      const double x_bar = (w[j] - y * along_w) / length;
      x_bar_dot[j] = (w_dot[j] - y * along_w_dot - y_dot * along_w - y * turn - stretch * x_bar) / length;
    }
  }
}

#define FLUXFORMER_INSTANTIATE(T)                                                                         \
  template void layer_norm_full_tangent(const double*, const double*, std::size_t, int, int, double,      \
                                        const T*, const T*, const T*, T*, std::size_t);                   \
  template void layer_norm_adjoint_tangent(const double*, const double*, std::size_t, const T*, const T*, \
                                           std::size_t, int, int, double, const T*, const T*, double,     \
                                           const double*, double*, double*, double*);
FLUXFORMER_INSTANTIATE(float)
FLUXFORMER_INSTANTIATE(double)
#undef FLUXFORMER_INSTANTIATE

}  // namespace fluxformer
