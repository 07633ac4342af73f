#pragma once

// The rank of a matrix from its singular values: how many of them are above a threshold. Beside it the margin,
// the ratio of the values on both sides of the cut, tells how clear the cut is. Source: specification of
// identifiability, section 2.

#include <Eigen/Core>

namespace fluxformer::identifiability {

/// A count of singular values, and how far it is from the next one.
struct NumericalRank {
  int rank = 0;
  /// The smallest value that counts over the largest that does not; where none is left, over the threshold.
  /// Infinite for a matrix of zeros and where the next value is 0. NaN for values that are not finite.
  double margin = 0;

  /// False where the margin is below 100: then the rank is a matter of the threshold.
  bool certain() const { return margin >= 100; }
};

/// s_max * max(rows, columns) * 2^-52, for singular values in descending order; 0 if there are none.
double rank_threshold(const Eigen::VectorXd& values, Eigen::Index rows, Eigen::Index columns);

/// How many values, in descending order, are above the threshold; 0 if they are not finite.
NumericalRank numerical_rank(const Eigen::VectorXd& values, double threshold);

}  // namespace fluxformer::identifiability
