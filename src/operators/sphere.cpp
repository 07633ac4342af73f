#include "operators/sphere.hpp"

#include <cmath>

#include "operators/kernels/simd.hpp"

namespace fluxformer {
namespace {

double dot(const double* x, const double* y, Index n) {
  return simd::sum_over<double>(n, [x, y](auto at) { return at(x) * at(y); });
}

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
