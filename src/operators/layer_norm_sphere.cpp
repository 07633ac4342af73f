// Rows on the unit sphere: norm = sphere.

#include <cmath>

#include "base/index.hpp"
#include "operators/kernels/simd_arrays.hpp"
#include "operators/layer_norm.hpp"

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

}  // namespace fluxformer
