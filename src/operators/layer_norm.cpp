#include "operators/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

template <class T>
T sum(const T* x, Index n) {
  return simd::sum_over<T>(n, [x](auto at) { return at(x); });
}

template <class T>
T dot(const T* x, const T* y, Index n) {
  return simd::sum_over<T>(n, [x, y](auto at) { return at(x) * at(y); });
}

template <class T>
void round_to(const double* __restrict x, Index n, T* __restrict y) {
  for (Index j = 0; j < n; ++j) y[j] = static_cast<T>(x[j]);
}

/// The mean that a norm subtracts: that of n numbers of this sum, or 0.
template <class T>
T centre_of(NormMap map, T sum, Index n) {
  return map == NormMap::layer ? sum / static_cast<T>(n) : T(0);
}

template <class T>
void subtract_mean(NormMap map, Index n, T* __restrict y) {
  if (map == NormMap::rms) return;
  const T mean = centre_of(map, sum(y, n), n);
  for (Index j = 0; j < n; ++j) y[j] -= mean;
}

/// y := x - mean(x), rounded to T first; for RMSNorm x itself.
template <class T>
void centre(NormMap map, const double* x, Index n, T* y) {
  round_to(x, n, y);
  subtract_mean(map, n, y);
}

/// 1 / sigma of a centred row.
template <class T>
T inverse_deviation(const T* centred, Index n, double eps) {
  return T(1) / std::sqrt(dot(centred, centred, n) / static_cast<T>(n) + static_cast<T>(eps));
}

/// y := z; returns 1 / sigma.
template <class T>
T normalise(const double* x, Index n, const NormSettings& norm, T* y) {
  centre(norm.map, x, n, y);
  const T inverse = inverse_deviation(y, n, norm.eps);
  for (Index j = 0; j < n; ++j) y[j] *= inverse;
  return inverse;
}

/// Calls f(integral constant) with the registers of a row, if the row is made of whole ones and is short
/// enough to stay in them; else returns false.
template <class T, class F>
bool in_registers(Index n, F&& f) {
  if (n % simd::lanes<T> != 0) return false;
  const auto with = [&]<Index... count>(std::integer_sequence<Index, count...>) {
    return ((n / simd::lanes<T> == count && (f(std::integral_constant<Index, count>{}), true)) || ...);
  };
  return with(std::integer_sequence<Index, 1, 2, 3, 4, 6, 8, 12, 16>{});
}

/// A row in `count` registers.
template <class T, Index count>
struct RowRegisters {
  simd::Vector<T> part[count];

  /// f(register, place of its first number)
  template <class F>
  void each(F&& f) {
    for (Index k = 0; k < count; ++k) f(part[k], k * simd::lanes<T>);
  }
  T sum() const {
    simd::Vector<T> all = part[0];
    for (Index k = 1; k < count; ++k) all += part[k];
    return simd::sum<T>(all);
  }
  T dot(const RowRegisters& other) const {
    simd::Vector<T> all = part[0] * other.part[0];
    for (Index k = 1; k < count; ++k) all += part[k] * other.part[k];
    return simd::sum<T>(all);
  }
  /// Becomes z; returns 1 / sigma.
  T normalise(const double* x, const NormSettings& norm) {
    // z = (x - mean(x)) / sigma,  sigma = sqrt(mean((x - mean(x))^2) + eps). mean(x^2) - mean(x)^2 would lose
    // digits where the mean is large.
    constexpr auto n = static_cast<T>(count * simd::lanes<T>);
    each([&](auto& v, Index j) { v = simd::load_rounded<T>(x + j); });
    if (norm.map == NormMap::layer) {
      const T mean = sum() / n;
      each([&](auto& v, Index) { v -= mean; });
    }
    const T inverse = T(1) / std::sqrt(dot(*this) / n + static_cast<T>(norm.eps));
    each([&](auto& v, Index) { v *= inverse; });
    return inverse;
  }
};

}  // namespace

// Short rows stay in registers. Otherwise several passes go over a few rows at a time: row by row, the sums
// would wait for the stores just before.
template <class T>
void layer_norm(const double* x, Index x_stride, Index rows, Index width, const NormSettings& norm,
                const T* gain, const T* bias, T* y, Index y_stride) {
  constexpr Index group = 8;
  const bool done = in_registers<T>(width, [&](auto registers) {
    // y = gain z + bias, or gain z. Two loops: in one with a branch the compiler may round the product first, and
    // rows with a bias would have other bits.
    const auto rows_of = [&](auto&& value) {
      RowRegisters<T, registers()> z;
      for (Index r = 0; r < rows; ++r) {
        z.normalise(x + r * x_stride, norm);
        z.each([&](auto& v, Index j) { simd::store(y + r * y_stride + j, value(v, j)); });
      }
    };
    using Numbers = simd::Vector<T>;
    if (bias != nullptr)
      rows_of([&](const Numbers& z, Index j) { return z * simd::load(gain + j) + simd::load(bias + j); });
    else
      rows_of([&](const Numbers& z, Index j) { return z * simd::load(gain + j); });
  });
  if (done) return;
  T factor[group];
  for (Index first = 0; first < rows; first += group) {
    const Index end = std::min(first + group, rows);
    for (Index r = first; r < end; ++r) round_to(x + r * x_stride, width, y + r * y_stride);
    for (Index r = first; r < end; ++r) subtract_mean(norm.map, width, y + r * y_stride);
    for (Index r = first; r < end; ++r)
      factor[r - first] = inverse_deviation(y + r * y_stride, width, norm.eps);
    for (Index r = first; r < end; ++r) {
      T* __restrict row = y + r * y_stride;
      const T inverse = factor[r - first];
      if (bias != nullptr)
        for (Index j = 0; j < width; ++j) row[j] = row[j] * inverse * gain[j] + bias[j];
      else
        for (Index j = 0; j < width; ++j) row[j] = row[j] * inverse * gain[j];
    }
  }
}

template <class T>
void layer_norm_tangent(const double* x, const double* v, Index x_stride, Index rows, Index width,
                        const NormSettings& norm, const T* gain, T* y, Index y_stride) {
  std::vector<T> normalised(width);
  T* __restrict z = normalised.data();
  for (Index r = 0; r < rows; ++r) {
    T* __restrict row = y + r * y_stride;
    const T inverse = normalise(x + r * x_stride, width, norm, z);
    centre(norm.map, v + r * x_stride, width, row);
    // gain / sigma ((v - mean(v)) - z mean(z (v - mean(v))))
    const T along = dot<T>(z, row, width) / static_cast<T>(width);
    for (Index j = 0; j < width; ++j) row[j] = gain[j] * inverse * (row[j] - z[j] * along);
  }
}

namespace {

/// The adjoint for rows in registers; adds to the gradients' sums.
template <class T, Index registers>
void adjoint_in_registers(const double* x, Index x_stride, const T* w, Index w_stride, Index rows,
                          const NormSettings& norm, const T* gain, double scale, const double* base,
                          double* x_bar, RowRegisters<T, registers>& gain_sum,
                          RowRegisters<T, registers>& bias_sum) {
  constexpr auto n = static_cast<T>(registers * simd::lanes<T>);
  RowRegisters<T, registers> z, weighted;
  for (Index r = 0; r < rows; ++r) {
    const T inverse = z.normalise(x + r * x_stride, norm);
    // g = gain w
    for (Index k = 0; k < registers; ++k) {
      const Index j = k * simd::lanes<T>;
      const auto bar = simd::load(w + r * w_stride + j);
      weighted.part[k] = simd::load(gain + j) * bar;
      gain_sum.part[k] += bar * z.part[k];
      bias_sum.part[k] += bar;
    }
    // x_bar = base + scale (g - mean(g) - z mean(z g)) / sigma
    const T mean = norm.map == NormMap::layer ? weighted.sum() / n : T(0);
    const T along = z.dot(weighted) / n;
    for (Index k = 0; k < registers; ++k) {
      const Index at = r * x_stride + k * simd::lanes<T>;
      simd::store_sum<T>(scale, inverse * (weighted.part[k] - mean - z.part[k] * along), base + at,
                         x_bar + at);
    }
  }
}

}  // namespace

// Several passes over a few rows, as in layer_norm; the gradients are summed in T over one call.
template <class T>
void layer_norm_adjoint(const double* x, Index x_stride, const T* w, Index w_stride, Index rows, Index width,
                        const NormSettings& norm, const T* gain, double scale, const double* base,
                        double* x_bar, double* gain_bar, double* bias_bar) {
  constexpr Index group = 8;
  const Index n = width;
  const bool done = in_registers<T>(n, [&](auto registers) {
    RowRegisters<T, registers()> gain_sum{}, bias_sum{};
    adjoint_in_registers(x, x_stride, w, w_stride, rows, norm, gain, scale, base, x_bar, gain_sum, bias_sum);
    const auto add = [&](const auto& sums, double* bar) {
      if (bar == nullptr) return;
      for (Index k = 0; k < registers(); ++k) {
        const Index j = k * simd::lanes<T>;
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
  for (Index first = 0; first < rows; first += group) {
    const Index size = std::min(group, rows - first);
    for (Index r = 0; r < size; ++r) round_to(x + (first + r) * x_stride, n, all_z + r * n);
    for (Index r = 0; r < size; ++r) subtract_mean(norm.map, n, all_z + r * n);
    for (Index r = 0; r < size; ++r) inverse[r] = inverse_deviation(all_z + r * n, n, norm.eps);
    // z, g = gain w, and the rows' shares of the gradients
    for (Index r = 0; r < size; ++r) {
      const T* __restrict row = w + (first + r) * w_stride;
      T* __restrict z = all_z + r * n;
      T* __restrict weighted = all_weighted + r * n;
      const T factor = inverse[r];
      for (Index j = 0; j < n; ++j) {
        z[j] *= factor;
        weighted[j] = gain[j] * row[j];
        gain_sum[j] += row[j] * z[j];
        bias_sum[j] += row[j];
      }
    }
    for (Index r = 0; r < size; ++r) {
      mean[r] = centre_of(norm.map, sum<T>(all_weighted + r * n, n), n);
      along[r] = dot<T>(all_z + r * n, all_weighted + r * n, n) / static_cast<T>(n);
    }
    // x_bar = base + scale (g - mean(g) - z mean(z g)) / sigma
    for (Index r = 0; r < size; ++r) {
      const T* z = all_z + r * n;
      T* __restrict weighted = all_weighted + r * n;
      const T factor = inverse[r], m = mean[r], a = along[r];
      for (Index j = 0; j < n; ++j) weighted[j] = factor * (weighted[j] - m - z[j] * a);
      const Index at = (first + r) * x_stride;
      simd::set_sum(scale, weighted, n, base + at, x_bar + at);
    }
  }
  if (gain_bar != nullptr) simd::set_sum(scale, gain_sum, n, gain_bar, gain_bar);
  if (bias_bar != nullptr) simd::set_sum(scale, bias_sum, n, bias_bar, bias_bar);
}

namespace {

/// A row and its direction: z, z_dot, 1 / sigma, and mean(z e).
template <class T>
struct NormalisedRow {
  NormalisedRow(Index width, const NormSettings& settings) : z(width), z_dot(width), norm(settings) {}

  void set(const double* x, const double* x_dot) {
    const Index n = std::ssize(z);
    inverse = normalise(x, n, norm, z.data());
    centre(norm.map, x_dot, n, z_dot.data());
    for (Index j = 0; j < n; ++j) z_dot[j] *= inverse;  // e
    along = dot(z.data(), z_dot.data(), n) / static_cast<T>(n);
    for (Index j = 0; j < n; ++j) z_dot[j] -= z[j] * along;  // e - z mean(z e)
  }

  std::vector<T> z, z_dot;
  NormSettings norm;
  T inverse = 0, along = 0;
};

}  // namespace

template <class T>
void layer_norm_full_tangent(const double* x, const double* x_dot, Index x_stride, Index rows, Index width,
                             const NormSettings& norm, const T* gain, const T* gain_dot, const T* bias_dot,
                             T* y_dot, Index y_stride) {
  NormalisedRow<T> row(width, norm);
  for (Index r = 0; r < rows; ++r) {
    row.set(x + r * x_stride, x_dot + r * x_stride);
    const T* __restrict z = row.z.data();
    const T* __restrict z_dot = row.z_dot.data();
    T* __restrict to = y_dot + r * y_stride;
    // y_dot = gain_dot z + gain z_dot + bias_dot
    for (Index j = 0; j < width; ++j)
      to[j] = gain_dot[j] * z[j] + gain[j] * z_dot[j] + (bias_dot != nullptr ? bias_dot[j] : T(0));
  }
}

template <class T>
void layer_norm_adjoint_tangent(const double* x, const double* x_dot, Index x_stride, const T* w,
                                const T* w_dot, Index w_stride, Index rows, Index width,
                                const NormSettings& norm, const T* gain, const T* gain_dot, double scale,
                                const double* base, double* x_bar_dot, double* gain_bar_dot,
                                double* bias_bar_dot) {
  const Index n = width;
  NormalisedRow<T> row(n, norm);
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
    // gain_bar_dot = sum over rows of w_dot z + w z_dot,  bias_bar_dot = sum of w_dot,  g = gain w
    for (Index j = 0; j < n; ++j) {
      gain_sum[j] += from_dot[j] * z[j] + from[j] * z_dot[j];
      bias_sum[j] += from_dot[j];
      g[j] = gain[j] * from[j];
      g_dot[j] = gain[j] * from_dot[j] + gain_dot[j] * from[j];
    }
    const T count = static_cast<T>(n);
    const T mean = centre_of(norm.map, sum(g, n), n), mean_dot = centre_of(norm.map, sum(g_dot, n), n);
    const T along = dot(z, g, n) / count;
    const T along_dot = dot(z_dot, g, n) / count + dot(z, g_dot, n) / count;
    // x_bar = (g - mean(g) - z mean(z g)) / sigma varies through g and z, and through 1 / sigma, with
    // (1 / sigma)_dot = -mean(z e) / sigma.
    for (Index j = 0; j < n; ++j)
      g_dot[j] = row.inverse * (g_dot[j] - mean_dot - z_dot[j] * along - z[j] * along_dot -
                                row.along * (g[j] - mean - z[j] * along));
    simd::set_sum(scale, g_dot, n, base + r * x_stride, x_bar_dot + r * x_stride);
  }
  if (gain_bar_dot != nullptr) simd::set_sum(scale, gain_sum, n, gain_bar_dot, gain_bar_dot);
  if (bias_bar_dot != nullptr) simd::set_sum(scale, bias_sum, n, bias_bar_dot, bias_bar_dot);
}

template void layer_norm(const double*, Index, Index, Index, const NormSettings&, const float*, const float*,
                         float*, Index);
template void layer_norm(const double*, Index, Index, Index, const NormSettings&, const double*,
                         const double*, double*, Index);
template void layer_norm_tangent(const double*, const double*, Index, Index, Index, const NormSettings&,
                                 const float*, float*, Index);
template void layer_norm_tangent(const double*, const double*, Index, Index, Index, const NormSettings&,
                                 const double*, double*, Index);
template void layer_norm_adjoint(const double*, Index, const float*, Index, Index, Index, const NormSettings&,
                                 const float*, double, const double*, double*, double*, double*);
template void layer_norm_adjoint(const double*, Index, const double*, Index, Index, Index,
                                 const NormSettings&, const double*, double, const double*, double*, double*,
                                 double*);
template void layer_norm_full_tangent(const double*, const double*, Index, Index, Index, const NormSettings&,
                                      const float*, const float*, const float*, float*, Index);
template void layer_norm_full_tangent(const double*, const double*, Index, Index, Index, const NormSettings&,
                                      const double*, const double*, const double*, double*, Index);
template void layer_norm_adjoint_tangent(const double*, const double*, Index, const float*, const float*,
                                         Index, Index, Index, const NormSettings&, const float*, const float*,
                                         double, const double*, double*, double*, double*);
template void layer_norm_adjoint_tangent(const double*, const double*, Index, const double*, const double*,
                                         Index, Index, Index, const NormSettings&, const double*,
                                         const double*, double, const double*, double*, double*, double*);

namespace {

/// v := factor (v - x (x . v) / |x|^2) per row, factor = 1 / |x| or 1.
void remove_radial(const double* x, double* v, Index rows, Index width, bool divide_by_length) {
  for (Index r = 0; r < rows; ++r) {
    const double* point = x + r * width;
    double* __restrict row = v + r * width;
    const double square = dot(point, point, width);
    const double along = dot(point, row, width) / square;
    const double factor = divide_by_length ? 1 / std::sqrt(square) : 1;
    for (Index j = 0; j < width; ++j) row[j] = factor * (row[j] - point[j] * along);
  }
}

}  // namespace

bool project_to_sphere(double* x, Index rows, Index width) {
  bool all = true;
  for (double* row = x; row != x + rows * width; row += width) {
    const double length = std::sqrt(dot(row, row, width));
    if (length == 0) {
      all = false;
      continue;
    }
    for (Index j = 0; j < width; ++j) row[j] /= length;
  }
  return all;
}

void sphere_tangent(const double* x, double* v, Index rows, Index width) {
  remove_radial(x, v, rows, width, true);
}

void project_to_tangent(const double* x, double* v, Index rows, Index width) {
  remove_radial(x, v, rows, width, false);
}

// With r = |x|, x_bar = (w - y (y . w)) / r and y_dot = (x_dot - y (y . x_dot)) / r:
//   x_bar_dot = (w_dot - y (y . w_dot) - y_dot (y . w) - y (y_dot . w) - (y . x_dot) x_bar) / r
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            Index rows, Index width, double* x_bar_dot) {
  const auto n = static_cast<double>(width);
  // The mean of the products times n: results depend on this rounding.
  const auto inner = [=](const double* a, const double* b) { return dot(a, b, width) / n * n; };
  for (Index row = 0; row < rows;
       ++row, x += width, x_dot += width, w += width, w_dot += width, x_bar_dot += width) {
    const double length = std::sqrt(inner(x, x));
    const double along_w = inner(x, w) / length, along_w_dot = inner(x, w_dot) / length;  // y . w, y . w_dot
    const double stretch = inner(x, x_dot) / length;                                      // y . x_dot
    const double turn = inner(x_dot, w) / length - stretch * along_w / length;            // y_dot . w
    for (Index j = 0; j < width; ++j) {
      const double y = x[j] / length, y_dot = (x_dot[j] - y * stretch) / length;
      const double x_bar = (w[j] - y * along_w) / length;
      x_bar_dot[j] = (w_dot[j] - y * along_w_dot - y_dot * along_w - y * turn - stretch * x_bar) / length;
    }
  }
}

}  // namespace fluxformer
