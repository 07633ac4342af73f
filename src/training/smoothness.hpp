#pragma once

// A penalty on how fast the weights change with depth, for weights that are linear between knots:
//
//   P = (strength / 2) sum over k of ds |(theta_{k+1} - theta_k) / ds|^2,   ds = (S - 1) / (K - 1)
//
// which is the integral of |d theta/ds|^2 over depth; theta are all numbers of a knot. Smooth weights let a
// model be solved on few depth cells, and parallel in depth.

#include <span>

#include "model/parameters.hpp"

namespace fluxformer {

/// P; gradient (the flat vector) += dP/d theta. 0 with a single knot or one layer, and for strength 0. Not
/// collective.
double add_smoothness(const Parameters& parameters, double strength, std::span<double> gradient);

}  // namespace fluxformer
