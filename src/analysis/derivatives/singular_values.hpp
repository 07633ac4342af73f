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

/// Of one sample. The largest singular value of the map is >= `largest`, the smallest one <= `smallest`, and
/// within each error there is a singular value of the map (up to its round-off). Small singular values that
/// are close together take many steps; the error shows it.
struct SingularRange {
  double largest = 0, largest_error = 0;
  double smallest = 0, smallest_error = 0;
  int steps = 0;  ///< steps taken; fewer than asked for if these are already exact
};

/// Of each sample of the context, by k = `steps` applications of `map` and of `transposed` to all samples
/// together. Each sample has its own random start, keyed by its global index `samples[b]`; padding does not
/// count. NaN for a sample of length 0, and where the map gives numbers that are not finite. Memory: 2 k
/// slabs. Cost besides the maps: k^2 operations for each number of a slab. Not collective. Throws BadInput
/// for steps < 1 and for tokens spread over ranks.
std::vector<SingularRange> singular_ranges(const SlabContext& context, const SlabMap& map,
                                           const SlabMap& transposed, int steps, const RandomStream& start,
                                           std::span<const long> samples);

}  // namespace fluxformer::derivatives
