#pragma once

// Rows on the unit sphere, x / |x|: projection, tangent and adjoint.

namespace fluxformer {

/// x := x / |x|, contiguous rows. Returns false if a row is zero (that row stays zero).
bool project_to_sphere(double* x, int rows, int width);
/// v := J v for y = x / |x| at x: (v - y (y . v)) / |x|. Symmetric, so it is the adjoint too.
void sphere_tangent(const double* x, double* v, int rows, int width);
/// v := v - y (y . v), y = x / |x|: the projection to the tangent space at x.
void project_to_tangent(const double* x, double* v, int rows, int width);
/// The same for y = x / |x|, whose adjoint is x_bar = (w - y (y . w)) / |x|: x_bar_dot, contiguous rows.
void sphere_adjoint_tangent(const double* x, const double* x_dot, const double* w, const double* w_dot,
                            int rows, int width, double* x_bar_dot);

}  // namespace fluxformer
