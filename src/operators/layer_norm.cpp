#include "operators/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

template <class T>
T sum(const T* x, std::size_t n) {
  return simd::sum_over<T>(n, [x](auto at) { return at(x); });
}

template <class T>
T dot(const T* x, const T* y, std::size_t n) {
  return simd::sum_over<T>(n, [x, y](auto at) { return at(x) * at(y); });
}

template <class T>
void round_to(const double* __restrict x, std::size_t n, T* __restrict y) {
  for (std::size_t j = 0; j < n; ++j) y[j] = static_cast<T>(x[j]);
}

template <class T>
void subtract_mean(std::size_t n, T* __restrict y) {
  const T mean = sum(y, n) / static_cast<T>(n);
  for (std::size_t j = 0; j < n; ++j) y[j] -= mean;
}

/// y := x - mean(x), rounded to T first.
template <class T>
void centre(const double* x, std::size_t n, T* y) {
  round_to(x, n, y);
  subtract_mean(n, y);
}

/// 1 / sqrt(var + eps) of a centred row.
template <class T>
T inverse_deviation(const T* centred, std::size_t n, double eps) {
  return T(1) / std::sqrt(dot(centred, centred, n) / static_cast<T>(n) + static_cast<T>(eps));
}

/// y := (x - mean) / sqrt(var + eps); returns 1 / sqrt(var + eps).
template <class T>
T normalise(const double* x, std::size_t n, double eps, T* y) {
  centre(x, n, y);
  const T inverse = inverse_deviation(y, n, eps);
  for (std::size_t j = 0; j < n; ++j) y[j] *= inverse;
  return inverse;
}

/// f(integral constant) with the registers of a row, if it is made of whole ones and short enough to stay in them; else false.
template <class T, class F>
bool in_registers(std::size_t n, F&& f) {
  if (n % simd::lanes<T> != 0) return false;
  const auto with = [&]<std::size_t... count>(std::index_sequence<count...>) {
    return ((n / simd::lanes<T> == count && (f(std::integral_constant<std::size_t, count>{}), true)) || ...);
  };
  return with(std::index_sequence<1, 2, 3, 4, 6, 8, 12, 16>{});
}

/// A row in `count` registers.
template <class T, std::size_t count>
struct RowRegisters {
  simd::Vector<T> part[count];

  /// f(register, place of its first number)
  template <class F>
  void each(F&& f) {
    for (std::size_t k = 0; k < count; ++k) f(part[k], k * simd::lanes<T>);
  }
  T sum() const {
    simd::Vector<T> all = part[0];
    for (std::size_t k = 1; k < count; ++k) all += part[k];
    return simd::sum<T>(all);
  }
  T dot(const RowRegisters& other) const {
    simd::Vector<T> all = part[0] * other.part[0];
    for (std::size_t k = 1; k < count; ++k) all += part[k] * other.part[k];
    return simd::sum<T>(all);
  }
  /// := (x - mean) / sqrt(var + eps); returns 1 / sqrt(var + eps).
  T normalise(const double* x, double eps) {
    constexpr auto n = static_cast<T>(count * simd::lanes<T>);
    each([&](auto& v, std::size_t j) { v = simd::load_rounded<T>(x + j); });
    const T mean = sum() / n;
    each([&](auto& v, std::size_t) { v -= mean; });
    const T inverse = T(1) / std::sqrt(dot(*this) / n + static_cast<T>(eps));
    each([&](auto& v, std::size_t) { v *= inverse; });
    return inverse;
  }
};

}  // namespace

// Short rows stay in registers. Else several passes over a few rows at a time: row by row, the sums would wait for the stores just before.
template <class T>
void layer_norm(const double* x, std::size_t x_stride, int rows, int width, double eps, const T* gain,
                const T* bias, T* y, std::size_t y_stride) {
  constexpr std::size_t group = 8;
  const auto n = static_cast<std::size_t>(width);
  const auto count = static_cast<std::size_t>(rows);
  const bool done = in_registers<T>(n, [&](auto registers) {
    RowRegisters<T, registers()> z;
    for (std::size_t r = 0; r < count; ++r) {
      z.normalise(x + r * x_stride, eps);
      z.each([&](auto& v, std::size_t j) {
        simd::store(y + r * y_stride + j, v * simd::load(gain + j) + simd::load(bias + j));
      });
    }
  });
  if (done) return;
  T factor[group];
  for (std::size_t first = 0; first < count; first += group) {
    const std::size_t end = std::min(first + group, count);
    for (std::size_t r = first; r < end; ++r) round_to(x + r * x_stride, n, y + r * y_stride);
    for (std::size_t r = first; r < end; ++r) subtract_mean(n, y + r * y_stride);
    for (std::size_t r = first; r < end; ++r) factor[r - first] = inverse_deviation(y + r * y_stride, n, eps);
    for (std::size_t r = first; r < end; ++r) {
      T* __restrict row = y + r * y_stride;
      const T inverse = factor[r - first];
      for (std::size_t j = 0; j < n; ++j) row[j] = row[j] * inverse * gain[j] + bias[j];
    }
  }
}

// With z = (x - mean) / sigma, sigma = sqrt(var + eps):  J v = gain (v - mean(v) - z mean(z v)) / sigma.
template <class T>
void layer_norm_tangent(const double* x, const double* v, std::size_t x_stride, int rows, int width,
                        double eps, const T* gain, T* y, std::size_t y_stride) {
  const auto n = static_cast<std::size_t>(width);
  std::vector<T> normalised(n);
  T* __restrict z = normalised.data();
  for (Index r = 0; r < rows; ++r) {
    T* __restrict row = y + r * y_stride;
    const T inverse = normalise(x + r * x_stride, n, eps, z);
    centre(v + r * x_stride, n, row);
    const T along = dot<T>(z, row, n) / static_cast<T>(n);
    for (std::size_t j = 0; j < n; ++j) row[j] = gain[j] * inverse * (row[j] - z[j] * along);
  }
}

namespace {

/// The transpose for rows in registers; adds to the gradients' sums.
template <class T, std::size_t registers>
void adjoint_in_registers(const double* x, std::size_t x_stride, const T* w, std::size_t w_stride,
                          std::size_t rows, double eps, const T* gain, double scale, const double* base,
                          double* x_bar, RowRegisters<T, registers>& gain_sum,
                          RowRegisters<T, registers>& bias_sum) {
  constexpr auto n = static_cast<T>(registers * simd::lanes<T>);
  RowRegisters<T, registers> z, weighted;
  for (std::size_t r = 0; r < rows; ++r) {
    const T inverse = z.normalise(x + r * x_stride, eps);
    for (std::size_t k = 0; k < registers; ++k) {
      const std::size_t j = k * simd::lanes<T>;
      const auto bar = simd::load(w + r * w_stride + j);
      weighted.part[k] = simd::load(gain + j) * bar;
      gain_sum.part[k] += bar * z.part[k];
      bias_sum.part[k] += bar;
    }
    const T mean = weighted.sum() / n, along = z.dot(weighted) / n;
    for (std::size_t k = 0; k < registers; ++k) {
      const std::size_t at = r * x_stride + k * simd::lanes<T>;
      simd::store_sum<T>(scale, inverse * (weighted.part[k] - mean - z.part[k] * along), base + at,
                         x_bar + at);
    }
  }
}

}  // namespace

// The transpose; J without the gain is symmetric. Several passes over a few rows, as above; the gradients
// are summed in T over one call.
template <class T>
void layer_norm_adjoint(const double* x, std::size_t x_stride, const T* w, std::size_t w_stride, int rows,
                        int width, double eps, const T* gain, double scale, const double* base, double* x_bar,
                        double* gain_bar, double* bias_bar) {
  constexpr std::size_t group = 8;
  const auto n = static_cast<std::size_t>(width);
  const auto count = static_cast<std::size_t>(rows);
  const bool done = in_registers<T>(n, [&](auto registers) {
    RowRegisters<T, registers()> gain_sum{}, bias_sum{};
    adjoint_in_registers(x, x_stride, w, w_stride, count, eps, gain, scale, base, x_bar, gain_sum, bias_sum);
    const auto add = [&](const auto& sums, double* bar) {
      if (bar == nullptr) return;
      for (std::size_t k = 0; k < registers(); ++k) {
        const std::size_t j = k * simd::lanes<T>;
        simd::store_sum<T>(scale, sums.part[k], bar + j, bar + j);
      }
    };
    add(gain_sum, gain_bar);
    add(bias_sum, bias_bar);
  });
  if (done) return;
  const std::unique_ptr<T[]> scratch(new T[(2 * group + 2) * n]);
  T* const all_z = scratch.get();
  T* const all_weighted = all_z + group * n;
  T* __restrict gain_sum = all_weighted + group * n;
  T* __restrict bias_sum = gain_sum + n;
  std::fill_n(gain_sum, n, T(0));
  std::fill_n(bias_sum, n, T(0));
  T inverse[group], mean[group], along[group];
  for (std::size_t first = 0; first < count; first += group) {
    const std::size_t size = std::min(group, count - first);
    for (std::size_t r = 0; r < size; ++r) round_to(x + (first + r) * x_stride, n, all_z + r * n);
    for (std::size_t r = 0; r < size; ++r) subtract_mean(n, all_z + r * n);
    for (std::size_t r = 0; r < size; ++r) inverse[r] = inverse_deviation(all_z + r * n, n, eps);
    for (std::size_t r = 0; r < size; ++r) {
      const T* __restrict row = w + (first + r) * w_stride;
      T* __restrict z = all_z + r * n;
      T* __restrict weighted = all_weighted + r * n;
      const T factor = inverse[r];
      for (std::size_t j = 0; j < n; ++j) {
        z[j] *= factor;
        weighted[j] = gain[j] * row[j];
        gain_sum[j] += row[j] * z[j];
        bias_sum[j] += row[j];
      }
    }
    for (std::size_t r = 0; r < size; ++r) {
      mean[r] = sum<T>(all_weighted + r * n, n) / static_cast<T>(n);
      along[r] = dot<T>(all_z + r * n, all_weighted + r * n, n) / static_cast<T>(n);
    }
    for (std::size_t r = 0; r < size; ++r) {
      const T* z = all_z + r * n;
      T* __restrict weighted = all_weighted + r * n;
      const T factor = inverse[r], m = mean[r], a = along[r];
      for (std::size_t j = 0; j < n; ++j) weighted[j] = factor * (weighted[j] - m - z[j] * a);
      const std::size_t at = (first + r) * x_stride;
      simd::set_sum(scale, weighted, n, base + at, x_bar + at);
    }
  }
  if (gain_bar != nullptr) simd::set_sum(scale, gain_sum, n, gain_bar, gain_bar);
  if (bias_bar != nullptr) simd::set_sum(scale, bias_sum, n, bias_bar, bias_bar);
}

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

template void layer_norm<float>(const double*, std::size_t, int, int, double, const float*, const float*,
                                float*, std::size_t);
template void layer_norm<double>(const double*, std::size_t, int, int, double, const double*, const double*,
                                 double*, std::size_t);
template void layer_norm_tangent<float>(const double*, const double*, std::size_t, int, int, double,
                                        const float*, float*, std::size_t);
template void layer_norm_tangent<double>(const double*, const double*, std::size_t, int, int, double,
                                         const double*, double*, std::size_t);
template void layer_norm_adjoint<float>(const double*, std::size_t, const float*, std::size_t, int, int,
                                        double, const float*, double, const double*, double*, double*,
                                        double*);
template void layer_norm_adjoint<double>(const double*, std::size_t, const double*, std::size_t, int, int,
                                         double, const double*, double, const double*, double*, double*,
                                         double*);
template void layer_norm_full_tangent(const double*, const double*, std::size_t, int, int, double,
                                      const float*, const float*, const float*, float*, std::size_t);
template void layer_norm_full_tangent(const double*, const double*, std::size_t, int, int, double,
                                      const double*, const double*, const double*, double*, std::size_t);
template void layer_norm_adjoint_tangent(const double*, const double*, std::size_t, const float*,
                                         const float*, std::size_t, int, int, double, const float*,
                                         const float*, double, const double*, double*, double*, double*);
template void layer_norm_adjoint_tangent(const double*, const double*, std::size_t, const double*,
                                         const double*, std::size_t, int, int, double, const double*,
                                         const double*, double, const double*, double*, double*, double*);

}  // namespace fluxformer
