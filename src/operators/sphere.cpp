#include "operators/sphere.hpp"

#include <cmath>

#include "base/index.hpp"
#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

double dot(const double* x, const double* y, std::size_t n) {
  return simd::sum_over<double>(n, [x, y](auto at) { return at(x) * at(y); });
}

}  // namespace

bool project_to_sphere(double* x, int rows, int width) {
  const auto n = static_cast<std::size_t>(width);
  bool all = true;
  for (double* row = x; row != x + static_cast<std::size_t>(rows) * n; row += n) {
    const double length = std::sqrt(dot(row, row, n));
    if (length == 0) {
      all = false;
      continue;
    }
    for (std::size_t j = 0; j < n; ++j) row[j] /= length;
  }
  return all;
}

namespace {

/// v := factor (v - x (x . v) / |x|^2) per row, factor = 1 / |x| or 1.
void remove_radial(const double* x, double* v, int rows, int width, bool divide_by_length) {
  const auto n = static_cast<std::size_t>(width);
  for (Index r = 0; r < rows; ++r) {
    const double* point = x + r * n;
    double* __restrict row = v + r * n;
    const double square = dot(point, point, n);
    const double along = dot(point, row, n) / square;
    const double factor = divide_by_length ? 1 / std::sqrt(square) : 1;
    for (std::size_t j = 0; j < n; ++j) row[j] = factor * (row[j] - point[j] * along);
  }
}

}  // namespace

void sphere_tangent(const double* x, double* v, int rows, int width) {
  remove_radial(x, v, rows, width, true);
}

void project_to_tangent(const double* x, double* v, int rows, int width) {
  remove_radial(x, v, rows, width, false);
}

// With r = |x| and y_dot = (x_dot - y (y . x_dot)) / r:
//   x_bar_dot = (w_dot - y (y . w_dot) - y_dot (y . w) - y (y_dot . w) - (y . x_dot) x_bar) / r
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            int rows, int width, double* x_bar_dot) {
  const auto n = static_cast<std::size_t>(width);
  // The mean of the products times n: the roundings of both stay.
  const auto count = static_cast<double>(width);
  const auto scaled_dot = [=](const double* a, const double* b) { return dot(a, b, n) / count * count; };
  for (int row = 0; row < rows; ++row, x += n, x_dot += n, w += n, w_dot += n, x_bar_dot += n) {
    const double length = std::sqrt(scaled_dot(x, x));
    const double along_w = scaled_dot(x, w) / length, along_w_dot = scaled_dot(x, w_dot) / length;
    const double stretch = scaled_dot(x, x_dot) / length;
    const double turn = scaled_dot(x_dot, w) / length - stretch * along_w / length;  // y_dot . w
    for (std::size_t j = 0; j < n; ++j) {
      const double y = x[j] / length, y_dot = (x_dot[j] - y * stretch) / length;
      const double x_bar = (w[j] - y * along_w) / length;
      x_bar_dot[j] = (w_dot[j] - y * along_w_dot - y_dot * along_w - y * turn - stretch * x_bar) / length;
    }
  }
}

}  // namespace fluxformer
