#pragma once

// Linear centred kernel alignment between every depth of one model and every depth of another. For examples
// as rows of X (n x d_a) and Y (n x d_b), with column means removed,
//
//   CKA(X, Y) = |Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F)      in [0, 1], no unit,
//
// which is invariant under rotations and scalings of either side. Source: Kornblith, Norouzi, Lee, Hinton,
// arXiv 1905.00414, eq. (5), the form in feature space: examples need not be stored. The caller chooses what
// an example is, a pooled sample or a token (state_examples.hpp).
//
// It is biased upwards unless there are many more examples than features: two unrelated standard Gaussian
// states have about sqrt(d_a d_b / ((n + d_a)(n + d_b))). Its null control is the exact mean over all n!
// pairings of the examples of one model with those of the other,
//
//   tr(X^T X) tr(Y^T Y) / ((n - 1) |X^T X|_F |Y^T Y|_F),
//
// the score of states with these spectra whose examples are unrelated.

#include <cstddef>
#include <vector>

#include "analysis/accumulator.hpp"

namespace fluxformer::states {

/// Accumulates moments. Examples may be spread over ranks, each whole on one rank; only `reduce` is
/// collective. Memory: D_a D_b d_a d_b + D_a d_a^2 + D_b d_b^2 numbers; cost per example: twice that in
/// flops.
class CkaMeter : public Accumulator {
 public:
  /// One of the two models: how many depths, and channels of an example.
  struct Side {
    int depths = 1, width = 1;
  };
  /// Throws BadInput for a depth or width below 1.
  CkaMeter(Side a, Side b);

  /// Adds examples, the same and in the same order for both sides: a[depth] and b[depth] point to
  /// [example][channel]. Most efficient with many at a time.
  void add(int examples, const std::vector<const double*>& a, const std::vector<const double*>& b);

  double examples() const { return total()[0]; }
  /// [depth of A][depth of B]. NaN where a side does not vary over the examples (up to round-off). Means are
  /// subtracted from raw moments: the relative error is about 1e-16 (1 + |mean|^2 / variance).
  std::vector<double> alignment() const { return table(false); }
  /// The null control, of the same shape.
  std::vector<double> unrelated() const { return table(true); }

 private:
  std::vector<double> table(bool unrelated) const;
  Side a_, b_;
  // The sums: number of examples | sums of A, of B | X^T X of each depth of A, of B | Y^T X of each pair
  std::size_t mean_a_, mean_b_, own_a_, own_b_, cross_;
};

}  // namespace fluxformer::states
