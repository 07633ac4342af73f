#pragma once

// Rows on the unit sphere, y = x / |x|, and derivatives of the projection. All rows are contiguous, in
// double.
//
//   J v = (v - y (y . v)) / |x|        symmetric, so that J^T w is the same

#include "base/index.hpp"

namespace fluxformer {

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
