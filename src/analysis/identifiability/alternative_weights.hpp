#pragma once

// Other attention weights with the same output: non-negative rows A' that sum to 1, with A' T = A T, as far
// from A as a line search finds. Where the simplex nullity is positive there are some, and this constructs
// them. Source: Brunner et al., arXiv 1908.04211, section 3; docs/model.md, section 10.4.
//
// Row by row, from b = a: with D = diag(b), directions x = D y with y = g D less its projection on col(D [T,
// 1]), so that x is in LN([T, 1]), and small where b is small (the affine scaling step of linear
// programming). Of several g and both signs the one is taken whose longest step, to the first entry that
// becomes 0, ends at the largest distance from a; that entry stays 0, and the next step goes on from there.
// At last b - a is projected on LN([T, 1]) again, shortened until no entry is negative, and what is negative
// by round-off is set to 0. This is a lower bound of the largest distance. Causal mask: row i within its
// first i + 1 tokens.

#include "analysis/identifiability/sample_head.hpp"
#include "base/random.hpp"

namespace fluxformer::identifiability {

/// The length of the search. Cost of a row: a QR factorisation and singular values of n x (d_v + 1) for each
/// step.
struct AlternativeSearch {
  int steps = 4;    ///< number of steps along each row, at least 1
  int random = 4;   ///< directions g of random numbers at each step
  int largest = 4;  ///< directions that take from one of the largest weights
};

/// A' and its distance from A.
struct AlternativeWeights {
  Matrix weights;                   ///< A', n x n: >= 0, rows sum to 1 to round-off
  Eigen::VectorXd total_variation;  ///< [row]: half the sum of |A' - A|, in [0, 1]; 0 for identifiable rows
  double output_difference = 0;     ///< largest |(A' - A) T| over the largest |T|

  double mean_variation() const { return total_variation.mean(); }
};

/// Searches for A'. The random directions are keyed by row and step. All NaN unless weights and values are
/// finite. Cost: n rows as above.
AlternativeWeights alternative_weights(const SampleHead& head, const AlternativeSearch& search,
                                       const RandomStream& stream);

}  // namespace fluxformer::identifiability
