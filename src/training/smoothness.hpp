#pragma once

// A penalty on how fast the weights change with depth, for weights that are linear between knots:
//
//   P = (strength / 2) sum over k of ds |(theta_{k+1} - theta_k) / ds|^2,   ds = (S - 1) / (K - 1)
//
// which is strength/2 times the integral of |d theta/ds|^2 over depth; theta_k are all parameters of knot k.
// A model with smooth weights can be solved on few depth cells, and parallel in depth.

#include <span>

#include "model/parameters.hpp"

namespace fluxformer {

/// The penalty P; gradient (the flat vector) += dP/d theta. P is 0 for a single knot, one layer or strength
/// 0. With a share of the parameters only the terms of its knots k, k + 1 are added, from k = `first_pair`
/// (0-based) on; -1 means all. Not collective.
double add_smoothness(const ModelSpec& spec, const ParameterVector& parameters, double strength,
                      std::span<double> gradient, int first_pair = -1);

}  // namespace fluxformer
