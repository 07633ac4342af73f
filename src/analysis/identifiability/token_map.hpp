#pragma once

// Linear maps from hidden states back to embedded tokens: g(u) = G^T u + b, ridge regression with intercept. With
// means over all tokens of the training samples removed, C = mean(u u^T) (d x d) and B = mean(u x^T) (d x m),
//
//   G = (C + lambda tr(C)/d I)^-1 B,    b = mean(x) - G^T mean(u),
//
// the minimum of mean |g(u) - x|^2 + lambda tr(C)/d |G|^2. lambda is relative to the mean variance of a channel, so that
// one grid does for all depths. One eigen-decomposition of C serves the whole grid. lambda is chosen by the rate on
// validation samples, which depends on the distance: one map per depth and distance.
//
// Accuracy: C squares the condition number of the states. Without noise, u = M x, and lambda = 0, the relative error of g
// is a few eps cond(C), with cond(C) = cond(U)^2: measured 7e-13 at cond(U) = 30, 8e-10 at 1e3 (d = 12). Eigenvalues of C
// below d eps of the largest are round-off: at lambda = 0 G is 0 there (least norm). Moments are taken about a reference
// that the caller chooses near the mean; without one the error also grows by 1 + |mean|^2 / variance.

#include <Eigen/Core>
#include <cstddef>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/attention_head.hpp"

namespace fluxformer::identifiability {

/// g(u) = G^T u + b, on rows.
struct LinearMap {
  Matrix slope;               ///< G, d x m
  Eigen::RowVectorXd offset;  ///< b, m

  /// Of n states (n x d): n x m.
  Matrix operator()(const Matrix& states) const;
};

/// The moments of states and descriptions. Samples may be spread over ranks; only `reduce` is collective. Memory: d (d +
/// m) numbers; cost of n tokens: 2 n d (d + m) flops, most efficient with more tokens than channels at a time.
class RidgeSums : public Accumulator {
 public:
  /// Moments about 0.
  RidgeSums(int width, int described);
  /// Moments about these references, width and described numbers, the same on all ranks.
  RidgeSums(Eigen::RowVectorXd states, Eigen::RowVectorXd descriptions);

  /// Adds one training sample, or some in one matrix: states n x d, descriptions n x m. Throws BadInput for other shapes.
  void add(const Matrix& states, const Matrix& descriptions);

  double tokens() const { return total()[0]; }
  /// Means over tokens; NaN without tokens.
  Eigen::RowVectorXd mean_state() const;
  Eigen::RowVectorXd mean_description() const;
  /// Mean variance of a channel, tr(C)/d, and the same of the descriptions.
  double state_variance() const;
  double description_variance() const;

  /// One map for each lambda >= 0, no unit. Cost: O(d^3) once, 2 d^2 m for each. Every rank computes the same. Throws
  /// BadInput for a negative lambda, NumericalFailure without tokens or if a state was not finite.
  std::vector<LinearMap> solve(const std::vector<double>& lambdas) const;

 private:
  using Vector = Eigen::Map<const Eigen::RowVectorXd>;
  Vector sum(std::size_t first, Eigen::Index count) const { return {total().data() + first, count}; }

  Eigen::RowVectorXd state_, description_;  // references
  // The sums: number of tokens | u | x | |x|^2 | u u^T | u x^T
  std::size_t described_, squares_, own_, cross_;
};

}  // namespace fluxformer::identifiability
