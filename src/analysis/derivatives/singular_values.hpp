#pragma once

// Largest and smallest singular values of a linear map, here the derivative of a layer with respect to its
// state, from products with it and its transpose alone: Golub-Kahan-Lanczos bidiagonalisation,
//
//   A V = U B,     A^T U = V B^T + beta_k v_{k+1} e_k^T,     B upper bidiagonal, k x k
//
// with full reorthogonalisation. The singular values of B lie within those of A. One of them, sigma, with the
// left vector p of B, has the residual beta_k |p_k| / sqrt(2) as an eigenvalue of [0 A; A^T 0]: a singular
// value of A is that close to sigma. Sources: Golub and Kahan 1965; Golub and Van Loan, Matrix Computations,
// section 10.4.

#include <span>
#include <vector>

#include "analysis/derivatives/sample_vectors.hpp"

namespace fluxformer::derivatives {

/// Of one sample. The largest singular value of the map is not below `largest`, the smallest one not above
/// `smallest`, and within each error of them lies a singular value (up to the round-off of the map). Small
/// ones that lie close together take many steps: their error says so.
struct SingularRange {
  double largest = 0, largest_error = 0;
  double smallest = 0, smallest_error = 0;
  int steps = 0;  ///< taken: fewer than asked for where these give all there is to know
};

/// Of each sample of the context: k = `steps` applications of `map` and of `transposed` to all samples
/// together. Each starts from a random direction of its own, keyed by its global index `samples[b]`; padding
/// does not count. NaN for a sample of length 0, and where the map gives numbers that are not finite. Memory:
/// 2 k numbers for each number of the slab; k^2 operations for each, beside the maps. Not collective. Throws
/// BadInput for steps < 1 and for tokens spread over ranks.
std::vector<SingularRange> singular_ranges(const SlabContext& context, const SlabMap& map,
                                           const SlabMap& transposed, int steps, const RandomStream& start,
                                           std::span<const long> samples);

}  // namespace fluxformer::derivatives
